//! Users that a scenario names and the host does not know: one line with the place, exit code 2.

mod common;

use common::{Scratch, expect_refusal};

#[test]
fn a_user_that_the_host_does_not_know_is_refused_with_its_place() {
    let scratch = Scratch::new();
    let text = |run: &str, program: &str| {
        format!(
            "version = 1\n[run]\nduration = \"1s\"\n{run}\n[[program]]\nname = \"a\"\n\
             budget = \"1ms\"\nperiod = \"10ms\"\ncommand = [\"true\"]\n{program}\n"
        )
    };
    let files = [
        ("program.toml", text("", "user = \"no-such-user\""), "program.toml:10:8: "),
        ("run.toml", text("user = \"no-such-user\"", ""), "run.toml:4:8: "),
    ];
    for (name, text, place) in files {
        scratch.write(name, text);
        let reported = format!("{place}user no-such-user: no such user on this host");
        expect_refusal(name, &scratch, &["check", "--machine", "live", name], &reported);
        expect_refusal(name, &scratch, &["run", name], &reported);
    }
}
