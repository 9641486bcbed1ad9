//! The kernel's control file system of caches and bandwidth (Documentation/filesystems/resctrl.rst)
//! as far as it can be written.

use super::{Host, number};
use crate::host::HardwareCore;
use std::io;
use std::path::{Path, PathBuf};

const ROOT: &str = "/sys/fs/resctrl";

/// Whether a path lies there.
pub(super) fn holds(path: &Path) -> bool {
    path.starts_with(ROOT)
}

fn error(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}

impl Host {
    /// A new group: everything of the root but what belongs to another.
    pub(super) fn make_group(&mut self, dir: &Path) -> io::Result<()> {
        let monitors = dir.parent().is_some_and(|parent| parent.ends_with("mon_groups"));
        let names: &[&str] = if monitors {
            &["tasks", "cpus", "cpus_list", "mon_data"]
        } else {
            &["tasks", "cpus", "cpus_list", "mon_data", "schemata", "size", "mode"]
        };
        if !monitors && self.groups() > self.closids() {
            self.dirs.remove(dir);
            self.say("Out of CLOSIDs");
            return Err(error(libc::ENOSPC));
        }
        let root = Path::new(ROOT);
        let within = |path: &Path| names.iter().any(|name| path.starts_with(root.join(name)));
        let copied: Vec<(PathBuf, String)> = self
            .files
            .iter()
            .filter(|(path, _)| within(path))
            .map(|(path, text)| (path.clone(), text.clone()))
            .collect();
        for (path, text) in copied {
            let Ok(below) = path.strip_prefix(root) else { continue };
            let counts = below.starts_with("mon_data");
            let owned = ["tasks", "cpus", "cpus_list"].iter().any(|name| below == Path::new(name));
            let text = match (counts, owned) {
                (true, _) => "0\n",
                (_, true) => "",
                (false, false) => &text,
            };
            self.put(&dir.join(below), text);
        }
        if !monitors {
            self.put(&dir.join("mode"), "shareable\n");
            self.dirs.insert(dir.join("mon_groups"));
        }
        Ok(())
    }

    /// What the group held goes back to the root.
    pub(super) fn remove_group(&mut self, dir: &Path) {
        let tasks = self.files.get(&dir.join("tasks")).cloned().unwrap_or_default();
        let root = self.files.entry(Path::new(ROOT).join("tasks")).or_default();
        root.push_str(&tasks);
    }

    pub(super) fn write_resctrl(&mut self, path: &Path, text: &str) -> io::Result<()> {
        let merged = match path.file_name().and_then(|name| name.to_str()) {
            Some("tasks") => {
                let pid = text.trim();
                let old = self.files.get(path).cloned().unwrap_or_default();
                for (other, tasks) in &mut self.files {
                    if holds(other) && other.ends_with("tasks") {
                        let kept = tasks.lines().filter(|line| *line != pid);
                        *tasks = kept.map(|line| format!("{line}\n")).collect();
                    }
                }
                let kept: String = old
                    .lines()
                    .filter(|line| *line != pid)
                    .map(|line| format!("{line}\n"))
                    .collect();
                Ok(format!("{kept}{pid}\n"))
            }
            Some("schemata") => self.merge(path, text),
            _ => Ok(format!("{}\n", text.trim_end())),
        };
        match merged {
            Ok(text) => {
                self.say("ok");
                self.files.insert(path.to_path_buf(), text);
                Ok(())
            }
            Err(why) => {
                self.say(&why);
                Err(error(libc::EINVAL))
            }
        }
    }

    /// The schemata with the lines of `text` in them; a sentence of the kernel's where it refuses.
    fn merge(&self, path: &Path, text: &str) -> Result<String, String> {
        let old = self.files.get(path).map_or("", String::as_str);
        let mut rows: Vec<(String, Vec<(String, String)>)> = old.lines().filter_map(row).collect();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let (resource, domains) =
                row(line).ok_or_else(|| format!("Missing ':' in schemata line \"{line}\""))?;
            let known = rows.iter_mut().find(|(name, _)| *name == resource);
            let (_, known) = known.ok_or("Unknown or unsupported resource name")?;
            for (domain, value) in domains {
                let known = known.iter_mut().find(|(id, _)| *id == domain);
                let (_, known) = known.ok_or(format!("Unknown domain {domain}"))?;
                *known = self.accepted(&resource, &value)?;
            }
        }
        let one = |(resource, domains): &(String, Vec<(String, String)>)| {
            let domains: Vec<_> =
                domains.iter().map(|(id, value)| format!("{id}={value}")).collect();
            format!("{resource}:{}\n", domains.join(";"))
        };
        Ok(rows.iter().map(one).collect())
    }

    fn accepted(&self, resource: &str, value: &str) -> Result<String, String> {
        let info = |name: &str| {
            let path = Path::new(ROOT).join("info").join(resource).join(name);
            self.files.get(&path).map(|text| text.trim().to_owned())
        };
        if resource.starts_with("MB") {
            let value: u64 = value.parse().map_err(|_| format!("Invalid MB value {value}"))?;
            let least = info("min_bandwidth").map_or(0, |text| number(&text));
            // Intel's are percents, AMD's absolute: there the greatest says "no limit".
            let grain = info("bandwidth_gran").map_or(1, |text| number(&text)).max(1);
            if value < least {
                return Err(format!("MB value {value} out of range [{least},100]"));
            }
            return Ok(value.next_multiple_of(grain).to_string());
        }
        let mask = u64::from_str_radix(value, 16).map_err(|_| "Non-hex character in the mask")?;
        let whole = info("cbm_mask").map_or(0, |text| number(&format!("0x{text}")));
        let least = info("min_cbm_bits").map_or(1, |text| number(&text));
        if mask == 0 || mask & !whole != 0 {
            return Err("Mask out of range".into());
        }
        let (ones, run) = (mask.count_ones(), mask >> mask.trailing_zeros());
        if run & (run + 1) != 0 {
            return Err(format!("The mask {value} has non-consecutive 1-bits"));
        }
        if u64::from(ones) < least {
            return Err(format!("Need at least {least} bits in the mask"));
        }
        Ok(format!("{mask:x}"))
    }

    /// Groups that control something, the root among them.
    fn groups(&self) -> usize {
        let root = Path::new(ROOT);
        let names = ["info", "mon_data", "mon_groups"];
        let all = self.dirs.iter().filter(|dir| dir.parent() == Some(root));
        1 + all.filter(|dir| !names.iter().any(|name| dir.ends_with(name))).count()
    }

    fn closids(&self) -> usize {
        let of = |resource: &str| {
            let path = Path::new(ROOT).join("info").join(resource).join("num_closids");
            self.files.get(&path).map(|text| number(text) as usize)
        };
        of("L3").into_iter().chain(of("MB")).min().unwrap_or(usize::MAX)
    }

    fn say(&mut self, what: &str) {
        let path = Path::new(ROOT).join("info/last_cmd_status");
        self.files.insert(path, format!("{what}\n"));
    }

    /// What a load's lines are in the bytes of bandwidth monitoring: of the root, by cache.
    pub(super) fn count_traffic(&mut self, core: HardwareCore, lines: u64) {
        let id = format!("/sys/devices/system/cpu/cpu{core}/cache/index3/id");
        let id = self.files.get(Path::new(&id)).map_or(0, |text| number(text));
        let domain = Path::new(ROOT).join("mon_data").join(format!("mon_L3_{id:02}"));
        for name in ["mbm_total_bytes", "mbm_local_bytes"] {
            if let Some(text) = self.files.get_mut(&domain.join(name))
                && let Ok(bytes) = text.trim().parse::<u64>()
            {
                *text = format!("{}\n", bytes + lines * maracas_core::memory::LINE_BYTES);
            }
        }
    }
}

/// `L3:0=ff;1=f` as its parts.
fn row(line: &str) -> Option<(String, Vec<(String, String)>)> {
    let (resource, domains) = line.trim().split_once(':')?;
    let domain = |text: &str| {
        let (id, value) = text.trim().split_once('=')?;
        Some((id.trim().to_owned(), value.trim().to_owned()))
    };
    let domains: Option<Vec<_>> = domains.split(';').map(domain).collect();
    Some((resource.trim().to_owned(), domains?))
}
