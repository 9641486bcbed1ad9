"""After rename.py: puts the glossary into ARCHITECTURE.md and the test of retired words into xtask. Usage: finish.py WORKTREE"""
import os, sys
here = os.path.dirname(os.path.abspath(__file__)); os.chdir(sys.argv[1])
t = open("ARCHITECTURE.md", encoding="utf-8").read()
if "\n## Words\n" not in t:
    t = t.replace("\n## Questions\n", "\n" + open(f"{here}/glossary.md").read() + "\n## Questions\n", 1)
    open("ARCHITECTURE.md", "w", encoding="utf-8").write(t)
os.makedirs("xtask/src/tidy", exist_ok=True)
open("xtask/src/tidy/words.rs", "w").write(open(f"{here}/words.rs").read())
p = "xtask/src/tidy.rs"; t = open(p).read()
if "mod words;" not in t: open(p, "w").write(t.replace("mod documents;\n", "mod documents;\nmod words;\n", 1))
c = "CHANGELOG.md"; t = open(c, encoding="utf-8").read(); line = "- Reports and `top --json` call the policy's own counts `statistics` (`figures` before), `doctor --json` the level `support` (`rung`).\n"
if line not in t: t = t.replace("### Changed\n", "### Changed\n" + line, 1); open(c, "w", encoding="utf-8").write(t)

def fix(path, old, new):
    """Lines that became too long, or differ after formatting."""
    if not os.path.exists(path): return print("not there:", path)
    t = open(path, encoding="utf-8").read()
    if old not in t: return None if new in t else print("not found:", path, old[:40])
    open(path, "w", encoding="utf-8").write(t.replace(old, new))
fix("CONTRIBUTING.md", "        let Some(place) = run_queue.iter().position(|turn| turn.vcpu == segment.vcpu) else { return };\n",
    "        let Some(place) = run_queue.iter().position(|turn| turn.vcpu == segment.vcpu) else {\n            return;\n        };\n")
cut = "\\\n "
fix("crates/session/src/live/senses.rs", "under throttle = latency no core is ever throttled; take", "under throttle = latency no core " + cut + "is ever throttled; take")
fix("crates/live/src/host/resctrl/tests.rs", "of somebody else; take it out of there or", "of somebody else; " + cut + "take it out of there or")
fix("crates/live/tests/live/uneven.rs", "by core), counted {raw:.3} s, {} moves, off", "by core), " + cut + "counted {raw:.3} s, {} moves, off")
fix("tests/src/maracas_audit.rs", "from {src} to {to} at {now}, colours {colors:x}", "from {src} to {to} at {now}, " + cut + "colours {colors:x}")
fix("crates/trace/src/metrics/tests.rs", "// goes on, then cut short: 1", "// then cut short: 1")
fix("crates/live/tests/live/laws.rs", "{} reads; {} service requests, {} times spent", "{} reads; " + cut + "{} service requests, {} times spent")
fix("crates/policies/src/maracas/balance.rs", "on {core}; add the policy's service VCPUs to", "on {core}; add the " + cut + "policy's service VCPUs to")
fix("crates/policies/src/maracas/throttle.rs", "to carry the samples; add the policy's service VCPUs ", "to carry the samples; add the " + cut + "policy's service VCPUs ")
fix("crates/policies/src/maracas/throttle.rs", "all v are 0 at first: no VCPU runs", "all v are 0: none runs")
fix("tests/src/live/audit.rs", "in the {mode:?}, and the policy was told of {reported}", "in the {mode:?}, " + cut + "and the policy was told of {reported}")
