//! How much memory our control group may still take.

use crate::host::cgroup::Hierarchies;
use std::fs;
use std::path::Path;

/// What one kind of control group calls its limit, its use, and what of that the kernel can take
/// back at once (`memory.stat`).
struct Names {
    limit: &'static str,
    used: &'static str,
    reclaimable: &'static str,
}

/// The kernel's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
const V2: Names =
    Names { limit: "memory.max", used: "memory.current", reclaimable: "inactive_file " };
const V1: Names = Names {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    reclaimable: "total_inactive_file ",
};

/// Bytes that our group and those above it may still take; `None` where nothing bounds them.
pub(super) fn of_our_group() -> Option<u64> {
    let hierarchies = Hierarchies::read().ok()?;
    let v2 = hierarchies.v2.iter().map(|it| (it, &V2));
    let all = v2.chain(hierarchies.v1("memory").map(|it| (it, &V1)));
    all.filter_map(|(it, names)| least(&it.root, &it.own, names)).min()
}

/// The least that a group or one above it has left.
fn least(root: &Path, own: &Path, names: &Names) -> Option<u64> {
    let groups = own.ancestors().take_while(|group| group.starts_with(root));
    groups.filter_map(|group| left(group, names)).min()
}

fn left(group: &Path, names: &Names) -> Option<u64> {
    let text = |name: &str| fs::read_to_string(group.join(name)).ok();
    // "max" is no number, and means no limit.
    let limit: u64 = text(names.limit)?.trim().parse().ok()?;
    let used: u64 = text(names.used)?.trim().parse().ok()?;
    let stat = text("memory.stat").unwrap_or_default();
    let back = stat.lines().find_map(|line| line.strip_prefix(names.reclaimable)?.parse().ok());
    Some(limit.saturating_sub(used).saturating_add(back.unwrap_or(0)).min(limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_group_counts() {
        let root = std::env::temp_dir().join(format!("maracas-room-{}", std::process::id()));
        let own = root.join("pod/container");
        fs::create_dir_all(&own).expect("made");
        let put = |dir: &Path, name: &str, text: &str| fs::write(dir.join(name), text).expect(name);
        assert_eq!(least(&root, &own, &V2), None, "nothing bounds it");
        put(&own, "memory.max", "max\n");
        put(&own, "memory.current", "300\n");
        assert_eq!(least(&root, &own, &V2), None);
        put(&root.join("pod"), "memory.max", "1000\n");
        put(&root.join("pod"), "memory.current", "900\n");
        assert_eq!(least(&root, &own, &V2), Some(100));
        put(&root.join("pod"), "memory.stat", "anon 500\ninactive_file 250\nactive_file 9\n");
        assert_eq!(least(&root, &own, &V2), Some(350), "files are given up");
        put(&own, "memory.max", "400\n");
        assert_eq!(least(&root, &own, &V2), Some(100));
        // What stands above the mounted root cannot be read.
        put(&root, "memory.limit_in_bytes", "50\n");
        put(&root, "memory.usage_in_bytes", "60\n");
        assert_eq!(least(&root, &own, &V1), Some(0));
        assert_eq!(least(&own, &own, &V1), None);
        fs::remove_dir_all(&root).expect("removed");
    }
}
