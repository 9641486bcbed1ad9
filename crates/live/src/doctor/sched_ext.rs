//! Whether this kernel takes schedulers that are BPF programs (sched_ext, Linux 6.12 and later),
//! and what one of ours would need of it.

use crate::host::platform::is_preempt_rt;
use crate::in_kernel::NOT_BUILT;
use std::path::Path;
use std::{fmt, fs};

/// What this kernel shows of sched_ext.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct SchedExt {
    /// What state it is in, such as `disabled`; `None` = the kernel has no sched_ext.
    pub state: Option<String>,
    /// The name of the scheduler that is loaded. There can be one only.
    pub loaded: Option<String>,
    /// Whether the kernel describes its own types (BTF). One program for several kernels finds the
    /// fields of structures by that.
    pub types: bool,
    /// Whether the kernel is built with PREEMPT_RT, which refuses timers of BPF programs
    /// (`bpf_timer`): the verifier says so by EOPNOTSUPP.
    pub realtime: bool,
    /// The cores that the kernel's balancing leaves out (`isolcpus=`), such as `2-3`, if any: it
    /// enables no scheduler of this kind beside them (`kernel/sched/ext.c`), though it loads it.
    pub isolated: Option<String>,
}

impl SchedExt {
    /// That of this kernel.
    pub fn read() -> Self {
        let isolated = word(Path::new("/sys/devices/system/cpu/isolated"));
        Self { isolated, ..Self::below(Path::new("/sys/kernel"), is_preempt_rt()) }
    }

    /// The same by the files of `kernel`, which stands for `/sys/kernel`. They are there since the
    /// kernel was built with `CONFIG_SCHED_CLASS_EXT` and `CONFIG_DEBUG_INFO_BTF`.
    fn below(kernel: &Path, realtime: bool) -> Self {
        Self {
            state: word(&kernel.join("sched_ext/state")),
            loaded: word(&kernel.join("sched_ext").join("root/ops")),
            types: kernel.join("btf/vmlinux").exists(),
            realtime,
            isolated: None,
        }
    }

    /// What has to change on this host before a scheduler of ours can be loaded.
    pub fn lacks(&self) -> Vec<String> {
        let mut lacks = Vec::new();
        if self.state.is_none() {
            lacks.push("Linux 6.12 or later with CONFIG_SCHED_CLASS_EXT".to_owned());
        }
        if !self.types {
            lacks.push("a kernel with CONFIG_DEBUG_INFO_BTF".to_owned());
        }
        if self.realtime {
            lacks.push("a kernel without PREEMPT_RT, which refuses bpf_timer".to_owned());
        }
        let isolated = self.isolated.iter();
        lacks.extend(isolated.map(|cores| format!("no isolated cores (isolcpus=), as {cores}")));
        lacks.extend(self.loaded.iter().map(|name| format!("the end of the scheduler {name}")));
        lacks
    }

    /// The same and what a build of ours lacks, for a user; empty where nothing has to change.
    pub fn remedy(&self, is_built: bool) -> String {
        let mut lacks = self.lacks();
        lacks.extend((!is_built).then(|| NOT_BUILT.to_owned()));
        if lacks.is_empty() {
            return String::new();
        }
        format!("for maracas run --backend sched-ext: {}", lacks.join("; "))
    }
}

/// What a file says, if anything.
fn word(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

impl fmt::Display for SchedExt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(state) = &self.state else {
            return f.write_str("this kernel takes no schedulers that are BPF programs");
        };
        write!(f, "this kernel takes schedulers that are BPF programs; {state}")?;
        if let Some(name) = &self.loaded {
            write!(f, ": {name}")?;
        }
        let types = if self.types { "its types are described" } else { "no types (BTF)" };
        let timers = if self.realtime { "PREEMPT_RT: no timers" } else { "timers, untried" };
        write!(f, "; {types}; {timers}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOADED: &str = concat!("sched_ext/", "root/ops");

    fn kernel(name: &str, files: &[(&str, &str)], realtime: bool) -> SchedExt {
        let folder = format!("maracas-sched-ext-{name}-{}", std::process::id());
        let root = std::env::temp_dir().join(folder);
        for (file, text) in files {
            let file = root.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let found = SchedExt::below(&root, realtime);
        let _ = fs::remove_dir_all(root);
        found
    }

    #[test]
    fn a_kernel_that_has_it_lacks_nothing() {
        let found =
            kernel("ready", &[("sched_ext/state", "disabled\n"), ("btf/vmlinux", "")], false);
        assert_eq!(
            (found.to_string().as_str(), found.remedy(true).as_str()),
            (
                "this kernel takes schedulers that are BPF programs; disabled; its types are \
                 described; timers, untried",
                ""
            )
        );
    }

    #[test]
    fn what_is_in_the_way_is_named() {
        let none = kernel("none", &[("btf/vmlinux", "")], false);
        assert_eq!(none.to_string(), "this kernel takes no schedulers that are BPF programs");
        assert!(none.remedy(true).ends_with(": Linux 6.12 or later with CONFIG_SCHED_CLASS_EXT"));
        let taken = [("sched_ext/state", "enabled\n"), (LOADED, "other_1.0\n")];
        let taken = kernel("taken", &taken, true);
        assert!(taken.to_string().contains("; enabled: other_1.0; no types"), "{taken}");
        let remedy = taken.remedy(false);
        let words =
            ["CONFIG_DEBUG_INFO_BTF", "PREEMPT_RT", "the scheduler other_1.0", "--features"];
        for word in words {
            assert!(remedy.contains(word), "{remedy}");
        }
        assert!(!remedy.contains("6.12"), "{remedy}");
        let files = [("sched_ext/state", "disabled\n"), ("btf/vmlinux", "")];
        let isolated =
            SchedExt { isolated: Some("2-3".to_owned()), ..kernel("isolated", &files, false) };
        assert_eq!(isolated.lacks(), ["no isolated cores (isolcpus=), as 2-3"]);
    }
}
