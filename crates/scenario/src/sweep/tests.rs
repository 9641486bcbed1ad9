use super::*;

const GOOD: &str = r#"
[sweep]
cores = [8, 4]
utilization = { from = 0.7, to = 1.0, step = 0.15 }
sets = 20
duration = "2s"
seed = 7
[tasks]
per_core = 3
loads = "uunifast"
periods = "harmonic"
[overheads]
migration = "20us"
[[policy]]
name = "run"
[[policy]]
name = "run"
label = "RUN, worst fit"
packing = "wfd"
"#;

fn parse(text: &str) -> Result<Sweep, String> {
    Sweep::parse(text, "s.toml", Path::new("")).map_err(|error| error.to_string())
}

fn refused(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    parse(&GOOD.replacen(from, to, 1)).expect_err(to)
}

#[test]
fn a_sweep_is_read_as_written() {
    let sweep = parse(GOOD).unwrap();
    assert_eq!((sweep.cores.as_slice(), sweep.sets, sweep.seed), (&[4, 8][..], 20, 7));
    assert_eq!(sweep.duration, Duration::from_secs(2));
    assert_eq!(sweep.overheads.migration, Duration::from_micros(20));
    assert_eq!(sweep.margin, Duration::ZERO);
    let Tasks::Drawn { utilization, count, recipe } = &sweep.tasks else { panic!("drawn") };
    assert_eq!(utilization, &[700_000, 850_000, 1_000_000]);
    assert_eq!((count, recipe.grain), (&Count::PerCore(vec![3]), Duration::from_millis(1)));
    let labels: Vec<_> = sweep.policies.iter().map(|policy| policy.label.as_str()).collect();
    assert_eq!(labels, ["run", "RUN, worst fit"]);
    let (name, _) = sweep.policies[1].params.iter().next().unwrap();
    assert_eq!(name, "packing");
    let error = sweep.at_param(&sweep.policies[1], "packing", "is wrong");
    assert_eq!(error.to_string(), "s.toml:19:11: is wrong");
    assert_eq!(sweep.at_policy(&sweep.policies[0], "?").to_string(), "s.toml:15:8: ?");
}

#[test]
fn numbers_may_stand_alone_and_the_seed_may_be_silent() {
    let text = GOOD.replace("[8, 4]", "2").replace("seed = 7\n", "").replace("per_core = 3\n", "");
    let sweep = parse(&text.replace("{ from = 0.7, to = 1.0, step = 0.15 }", "0.5")).unwrap();
    assert_eq!((sweep.cores, sweep.seed), (vec![2], 1));
    let margin = parse(&GOOD.replace("seed = 7", "margin = \"50us\"")).unwrap().margin;
    assert_eq!(margin, Duration::from_micros(50));
    let Tasks::Drawn { utilization, count, .. } = sweep.tasks else { panic!("drawn") };
    assert_eq!((utilization, count), (vec![500_000], Count::Open));
}

#[test]
fn what_is_wrong_is_named_with_its_place_and_the_way_out() {
    for (from, to, line) in [
        ("sets = 20", "setts = 20", "s.toml:5:1: unknown key `setts`; did you mean `sets`?"),
        ("sets = 20", "sets = 0", "s.toml:5:8: `sets` is 0; it must lie from 1 to 1000000"),
        ("sets = 20\n", "", "s.toml:2:1: [sweep] has no `sets`; add sets = 100"),
        ("[8, 4]", "[8, 8]", "s.toml:3:9: `cores` holds a value twice; drop one of them"),
        ("[8, 4]", "[]", "s.toml:3:9: `cores` is an empty list; give it a value"),
        ("[8, 4]", "[1025]", "s.toml:3:10: `cores` is 1025; it must lie from 1 to 1024"),
        ("from = 0.7", "from = 1.1", "must lie from 0 to 1"),
        ("to = 1.0", "to = 0.2", "`from` lies above `to`; let them change places"),
        ("step = 0.15", "step = 0", "`step` must be above zero"),
        ("step = 0.15", "stepp = 0.15", "unknown key `stepp`; did you mean `step`?"),
        ("step = 0.15", "step = 0.0001", "`utilization` has 3001 values; at most 1000 may be"),
        ("\"2s\"", "\"2d\"", "s.toml:6:12: duration \"2d\""),
        ("\"2s\"", "\"90000s\"", "duration 90000s is longer than 86400s; shorten it"),
        ("\"20us\"", "\"2s\"", "migration 2s is longer than 1s; shorten it"),
        ("per_core = 3", "per_core = 3\ncount = 8", "`count` and `per_core` say the same"),
        ("loads = \"uunifast\"\n", "", "[tasks] has no `loads`; add loads = \"uunifast\""),
        ("\"uunifast\"", "\"uunifart\"", "s.toml:10:9: `loads` \"uunifart\": "),
        ("per_core = 3", "files = \"x.csv\"", "s.toml:10:1: `loads` is for sets that are drawn"),
        ("label = \"RUN, worst fit\"\n", "", "two policies are called \"run\"; give one another"),
        ("RUN, worst fit", " ", "the label \" \" cannot be shown; write another"),
        ("[tasks]", "[taks]", "s.toml:8:2: unknown key `taks`; did you mean `tasks`?"),
        ("[[policy]]", "[policy]", "write [[policy]], with two brackets, before each"),
        ("\"wfd\"", "1979-05-27", "`packing` must be a string, a number, true or false"),
    ] {
        let text = if from == "[[policy]]" {
            let end = GOOD.find(from).unwrap();
            format!("{}[policy]\nname = \"run\"\n", &GOOD[..end])
        } else {
            GOOD.replacen(from, to, 1)
        };
        let error = parse(&text).expect_err(to);
        assert!(error.contains(line), "{to}: {error}");
    }
    let none = GOOD.split("[[policy]]").next().unwrap();
    assert!(parse(none).unwrap_err().contains("add [[policy]] with name = \"g-edf\""));
    assert!(parse("").unwrap_err().contains("the sweep has no [sweep]"));
    assert!(refused("[sweep]", "[[sweep]]").contains("may stand once only"));
}

#[test]
fn files_are_found_by_name_or_by_stars() {
    let folder = std::env::temp_dir().join(format!("maracas-sweep-files-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("sets")).unwrap();
    for name in ["sets/b2.csv", "sets/a1.csv", "sets/.b3.csv", "sets/c.txt", "one.csv"] {
        std::fs::write(folder.join(name), "cost_us,period_us\n1,2\n").unwrap();
    }
    let with = |files: &str| {
        let text = format!(
            "[sweep]\ncores = 2\nduration = \"1s\"\n[tasks]\nfiles = {files}\n\
             [[policy]]\nname = \"run\"\n"
        );
        let sweep = Sweep::parse(&text, "s.toml", &folder).map_err(|error| error.to_string())?;
        let Tasks::Files(files) = sweep.tasks else { panic!("files") };
        assert_eq!(sweep.sets, files.len());
        let short = |path: &PathBuf| path.strip_prefix(&folder).unwrap().display().to_string();
        Ok::<_, String>(files.iter().map(short).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(with("\"one.csv\"").unwrap(), "one.csv");
    assert_eq!(with("\"sets/*.csv\"").unwrap(), "sets/a1.csv sets/b2.csv");
    assert_eq!(with("[\"sets/b*\", \"sets/*2*v\", \"one.csv\"]").unwrap(), "sets/b2.csv one.csv");
    for (files, why) in [
        ("\"two.csv\"", "s.toml:5:9: `files` \"two.csv\" is no file; check the path"),
        ("\"sets/*.json\"", "\"sets/*.json\" matches no file"),
        ("\"nowhere/*.csv\"", "is in no folder that can be read"),
        ("[]", "`files` is an empty list"),
        ("3", "`files` must be a string"),
    ] {
        let error = with(files).unwrap_err();
        assert!(error.contains(why), "{files}: {error}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn stars_stand_for_something_or_nothing() {
    for (pattern, name, matches) in [
        ("*.csv", "a.csv", true),
        ("*.csv", ".csv", false),
        (".*", ".csv", true),
        ("a*b*c", "abc", true),
        ("a*b*c", "axxbyyc", true),
        ("a*b*c", "ac", false),
        ("aba*aba", "aba", false),
        ("*", "anything", true),
        ("a.csv", "a.csv", true),
        ("a.csv", "b.csv", false),
    ] {
        assert_eq!(matches_stars(pattern, name), matches, "{pattern} {name}");
    }
}
