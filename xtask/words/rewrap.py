"""Moves the words beyond 100 columns of comment lines to the next comment line. Usage: rewrap.py FILES"""
import re, sys
LIMIT = 100
for path in sys.argv[1:]:
    lines = open(path, encoding="utf-8").read().split("\n")
    out = []; i = 0; changed = False
    while i < len(lines):
        line = lines[i]
        m = re.match(r"^(\s*)(//[/!]?|#) ", line)
        if m and len(line) > LIMIT and "http" not in line and not line.strip().startswith(("//! |", "/// |")):
            head = m.group(0)
            text = line[len(head):]
            lead = re.match(r"\s*", text).group(0)
            cut = line.rfind(" ", len(head) + 1, LIMIT + 1)
            rest = line[cut + 1:]
            out.append(line[:cut]); changed = True
            nxt = lines[i + 1] if i + 1 < len(lines) else ""
            nm = re.match(r"^(\s*)(//[/!]?|#) ", nxt)
            body = nxt[len(nm.group(0)):] if nm else ""
            joins = nm and nm.group(0) == head and body.strip() and not re.match(r"\s*([-*#|]|\d+\.|```)", body)
            if joins:
                lines[i + 1] = head + lead + rest + " " + body.lstrip()
            else:
                lines.insert(i + 1, head + lead + rest)
            i += 1
            continue
        out.append(line); i += 1
    if changed:
        open(path, "w", encoding="utf-8").write("\n".join(out))
