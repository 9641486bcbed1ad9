//! The parser over the three kinds of hosts.

use super::*;

const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime shared:1 master:2 - cgroup cgroup rw,cpuset
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";
const HYBRID_GROUPS: &str =
    "9:name=systemd:/\n3:cpuset:/\n2:cpu,cpuacct:/user.slice\n0::/user.slice\n";

#[test]
fn a_hybrid_host_shows_both() {
    let found = Hierarchies::parse(HYBRID, HYBRID_GROUPS);
    let v2 = found.v2.as_ref().expect("v2 is mounted");
    assert_eq!(v2.root, PathBuf::from("/sys/fs/cgroup/unified"));
    assert_eq!(v2.own, PathBuf::from("/sys/fs/cgroup/unified/user.slice"));
    assert!(v2.controllers.is_empty());
    let cpu = found.v1("cpuacct").expect("mounted together with cpu");
    assert_eq!(cpu.controllers, ["cpu", "cpuacct"]);
    assert_eq!(cpu.own, PathBuf::from("/sys/fs/cgroup/cpu,cpuacct/user.slice"));
    let cpuset = found.v1("cpuset").expect("cpuset is mounted");
    assert_eq!(cpuset.own, cpuset.root);
    assert_eq!(
        place::levels(cpuset),
        std::slice::from_ref(&cpuset.root),
        "own group and root are one"
    );
    assert_eq!(found.v1("name=systemd").map(|v1| v1.controllers.len()), Some(1), "no option left");
    assert!(found.v1("freezer").is_none());
}

#[test]
fn a_v2_only_host_shows_one_hierarchy() {
    let mounts = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";
    let found = Hierarchies::parse(mounts, "0::/user.slice/session-2.scope\n");
    let v2 = found.v2.expect("v2 is mounted");
    assert_eq!(v2.own, PathBuf::from("/sys/fs/cgroup/user.slice/session-2.scope"));
    let slice = v2.root.join("user.slice");
    assert_eq!(place::levels(&v2), [v2.own.clone(), slice, v2.root.clone()], "the root last");
    assert!(found.v1.is_empty());
}

#[test]
fn a_v1_only_host_shows_no_v2() {
    let mounts = "\
34 31 0:31 / /cgroup/cpuset rw - cgroup none rw,cpuset,noprefix
37 31 0:34 / /cgroup/fr\\040eezer rw - cgroup none rw,freezer,release_agent=/x
38 31 0:34 / /cgroup/again rw - cgroup none rw,freezer";
    let found = Hierarchies::parse(mounts, "6:freezer:/\n3:cpuset:/jobs\n");
    assert_eq!(found.v2, None);
    let freezer = found.v1("freezer").expect("freezer is mounted");
    assert_eq!(freezer.root, PathBuf::from("/cgroup/fr eezer"), "the first mount, unescaped");
    assert_eq!(freezer.controllers, ["freezer"]);
    assert_eq!(found.v1.len(), 2, "a second mount of a hierarchy is not a second hierarchy");
    assert_eq!(found.v1("cpuset").map(|v1| v1.own.clone()), Some("/cgroup/cpuset/jobs".into()));
}

#[test]
fn a_container_that_hides_the_upper_groups_is_seen_through() {
    let mounts = "41 31 0:38 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw";
    let own = |groups: &str| Hierarchies::parse(mounts, groups).v2.map(|v2| v2.own);
    assert_eq!(own("0::/docker/abc\n"), Some("/sys/fs/cgroup/".into()));
    assert_eq!(own("0::/docker/abc/inner\n"), Some("/sys/fs/cgroup/inner".into()));
    assert_eq!(own("0::/docker/abcd\n"), Some("/sys/fs/cgroup/".into()), "outside: the root");
    let is_at_root =
        |groups: &str| Hierarchies::parse(mounts, groups).v2.is_some_and(|v2| v2.is_at_root);
    assert!(is_at_root("0::/docker/abc\n"));
    assert!(!is_at_root("0::/docker/abc/inner\n"));
    assert!(!is_at_root("0::/docker/abcd\n"), "what is outside is not at the root that is seen");
    assert!(!is_at_root(""), "nor is what is not known");
}

#[test]
fn no_groups_and_nonsense_give_nothing() {
    assert_eq!(Hierarchies::parse("", ""), Hierarchies::default());
    let nonsense = "a b c\n31 23 0:28 / /x rw - ext4 /dev/x rw\n- - -\n12 - cgroup2";
    assert_eq!(Hierarchies::parse(nonsense, "::::\n0\n"), Hierarchies::default());
}

#[test]
fn a_tree_in_another_users_directory_is_none_of_a_run() {
    use crate::host::tests::{can, is_root};
    if !can("foreign trees", is_root(), "root, to give a directory away") {
        return;
    }
    let root = std::env::temp_dir().join(format!("maracas-trees-{}", std::process::id()));
    let run = Identity { pid: 4711, start: 88123, namespace: None };
    let tree = root.join("x.scope").join(HOUSE).join(run.to_string());
    fs::create_dir_all(&tree).unwrap();
    let hierarchy = Hierarchy {
        own: root.join("x.scope"),
        root: root.clone(),
        controllers: Vec::new(),
        is_at_root: false,
        prefix: "/".into(),
        unified: true,
    };
    let own = hierarchy.trees_of(run);
    std::os::unix::fs::chown(root.join("x.scope").join(HOUSE), Some(65_534), None).unwrap();
    let foreign = hierarchy.trees_of(run);
    fs::remove_dir_all(&root).unwrap();
    assert_eq!((own, foreign), (vec![tree], Vec::new()));
}
