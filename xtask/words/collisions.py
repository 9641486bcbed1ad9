#!/usr/bin/env python3
"""Which new names stand in a file already, where a rule would bring them: collisions.py WORKTREE"""
import os, re, sys, collections
sys.argv.append("--dry"); src = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "rename.py")).read().replace("\nmain()\n", "\n")
exec(src)
os.chdir(sys.argv[1]); rules = table()
for f in git("ls-files", "*.rs").split():
    own = Rules(rules, f)
    text = re.sub(r"//[^\n]*", "", open(f, encoding="utf-8").read()); text = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)
    words = set(IDENT.findall(text)); into = collections.defaultdict(set)
    for w in words:
        n = own.name(w)
        if n != w: into[n].add(w)
    for n, olds in sorted(into.items()):
        if n in words or len(olds) > 1: print(f, "+".join(sorted(olds)), "->", n, "(there already)" if n in words else "(two)")
