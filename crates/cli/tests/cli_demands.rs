//! What VCPUs ask for beyond their time, and what says that it is not kept.

mod common;

use common::{Scratch, maracas, text};

/// A VCPU that asks for everything.
const ASKING: &str = r#"version = 1
[platform]
preset = "i5-2500k"
[policy]
name = "maracas"
[run]
duration = "50ms"
[[program]]
name = "a"
budget = "2ms"
period = "10ms"
colors = 4
bandwidth = "100MB/s"
criticality = "low"
weight = 2
workload = { kind = "busy" }
memory = "m_jump"
"#;

#[test]
fn what_a_policy_does_not_keep_is_said() {
    let scratch = Scratch::new();
    scratch.write("s.toml", ASKING);
    let notes = |command: &str, policy: &str| {
        let output = maracas(scratch.path(), &[command, "s.toml", "--policy", policy]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    for command in ["check", "sim"] {
        let reported = notes(command, "round-robin");
        for (key, instead) in [
            ("colors", "maracas"),
            ("bandwidth", "memguard+round-robin"),
            ("criticality", "maracas"),
            ("weight", "acfs"),
        ] {
            let line = format!(
                "maracas: a: policy round-robin does not keep `{key}`; take {instead}, or drop it\n"
            );
            assert!(reported.contains(&line), "{command}: {reported}");
        }
        let reported = notes(command, "maracas");
        assert!(reported.contains("`bandwidth`"), "{reported}");
        let split = "`colors` asks for nothing, as [platform] splits no cache";
        assert!(reported.contains(split), "{reported}");
        let reported = notes(command, "memguard+maracas");
        assert_eq!(reported.matches("does not keep").count(), 1, "{reported}");
        assert!(reported.contains("does not keep `weight`; take memguard+acfs"), "{reported}");
    }
    let output = maracas(scratch.path(), &["check", "s.toml", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(json["notes"][0].as_str().unwrap().contains("`bandwidth`"), "{json}");
}
