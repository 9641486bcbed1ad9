//! The reference document, the JSON Schema, the examples and the reader say the same.

use maracas_core::sensor::{Sense, SensorKind};
use maracas_scenario::keys::{self, Keys, TABLES};
use maracas_scenario::{Error, Scenario, presets};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    std::fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

fn schema() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenario.schema.json");
    serde_json::from_str(&text(path)).expect("the schema is JSON")
}

fn examples() -> Vec<(String, String)> {
    let mut found: Vec<_> = std::fs::read_dir(root().join("examples"))
        .expect("the examples stand at the root")
        .map(|entry| entry.expect("the directory can be listed").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| (path.display().to_string(), text(&path)))
        .collect();
    found.sort();
    assert!(found.len() >= 6, "{} examples", found.len());
    found
}

/// The TOML blocks of the reference document, each made a whole scenario.
fn blocks() -> Vec<String> {
    let document = text(root().join("docs/scenario.md"));
    let blocks: Vec<_> = document
        .split("```toml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap_or_default())
        .map(|block| {
            let head = if block.contains("version = 1") { "" } else { "version = 1\n" };
            let tail = if block.contains("[[program]]") {
                ""
            } else {
                "[[vcpu]]\nname = \"any\"\nbudget = \"1ms\"\nperiod = \"9ms\"\n"
            };
            format!("{head}{block}{tail}")
        })
        .collect();
    assert!(blocks.len() >= 8, "{} blocks", blocks.len());
    blocks
}

fn json(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::from(text.as_ref()),
        DeValue::Integer(n) => {
            i64::from_str_radix(n.as_str(), n.radix()).map_or(Value::Null, Value::from)
        }
        DeValue::Float(x) => x.as_str().parse::<f64>().map_or(Value::Null, Value::from),
        DeValue::Boolean(flag) => Value::from(*flag),
        DeValue::Datetime(time) => Value::from(time.to_string()),
        DeValue::Array(elements) => elements.iter().map(|e| json(e.get_ref())).collect(),
        DeValue::Table(table) => json_table(table),
    }
}

fn json_table(table: &DeTable<'_>) -> Value {
    let entry = |(key, value): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
        let key: &std::borrow::Cow<'_, str> = key.get_ref();
        (key.to_string(), json(value.get_ref()))
    };
    Value::Object(table.iter().map(entry).collect::<Map<_, _>>())
}

#[test]
fn examples_and_document_blocks_are_read_and_satisfy_the_schema() {
    let validator = jsonschema::validator_for(&schema()).expect("the schema is a schema");
    let blocks = blocks().into_iter().map(|block| ("docs/scenario.md".to_owned(), block));
    for (name, text) in examples().into_iter().chain(blocks) {
        let read = Scenario::parse(&text, &name).map_err(|error| format!("{error}\n{text}"));
        let scenario = read.unwrap_or_else(|error| panic!("{error}"));
        let cores = scenario.platform.cores.unwrap_or(1);
        assert_eq!(scenario.system(cores).map(|system| system.cores.len()), Ok(cores));
        let document = DeTable::parse(&text).expect("it was just read");
        let json = json_table(document.get_ref());
        let errors: Vec<_> = validator.iter_errors(&json).map(|it| it.to_string()).collect();
        assert_eq!(errors, [""; 0], "{name}\n{text}");
    }
}

#[test]
fn examples_say_what_to_see() {
    for (name, text) in examples() {
        let head: String = text.lines().take_while(|line| line.starts_with('#')).collect();
        assert!(head.contains("What to see:"), "{name} has no head that says what to see");
        assert!(head.contains("maracas sim") || head.contains("maracas check"), "{name}");
    }
}

/// What the schema refuses beyond what the types say.
#[test]
fn the_schema_refuses_what_the_reader_refuses() {
    let validator = jsonschema::validator_for(&schema()).expect("the schema is a schema");
    let good = "version = 1\n[[program]]\nname = \"a\"\ncommand = [\"true\"]\nbudget = \"2ms\"\n\
                period = \"10ms\"\n";
    let valid = |text: &str| -> bool {
        let document = DeTable::parse(text).expect("the inputs of this test are TOML");
        validator.is_valid(&json_table(document.get_ref()))
    };
    assert!(valid(good));
    for (from, to) in [
        ("version = 1", "version = 2"),
        ("version = 1", ""),
        ("[[program]]", "[program]"),
        ("budget = \"2ms\"", "budgte = \"2ms\""),
        ("budget = \"2ms\"", "budget = 2"),
        ("budget = \"2ms\"", "budget = \"2\""),
        ("budget = \"2ms\"", "budget = \"-2ms\""),
        ("budget = \"2ms\"", ""),
        ("budget = \"2ms\"", "kind = \"io\""),
        ("budget = \"2ms\"", "budget = \"2ms\"\nvcpu = \"b\""),
        ("budget = \"2ms\"", "budget = \"2ms\"\nspeedup = 0.9"),
        ("name = \"a\"", ""),
        ("name = \"a\"", "name = \"a/b\""),
        ("command = [\"true\"]", ""),
        ("command = [\"true\"]", "command = \"true\""),
        ("command = [\"true\"]", "command = []"),
        ("command = [\"true\"]", "workload = { kind = \"lazy\" }"),
        ("command = [\"true\"]", "workload = { kind = \"busy\", cost = \"1ms\" }"),
        ("command = [\"true\"]", "workload = { kind = \"periodic\" }"),
        ("command = [\"true\"]", "workload = { kind = \"busy\" }\noutput = \"null\""),
        ("version = 1", "version = 1\nplatform = { preset = \"i5\" }"),
        ("version = 1", "version = 1\nplatform = { mhz = 3300 }"),
        ("version = 1", "version = 1\nlive = { sense = \"replay:\" }"),
        ("version = 1", "version = 1\nlive = { sense = \"imc\" }"),
        ("version = 1", "version = 1\nlive = { throttle_by = \"mbm\" }"),
        ("version = 1", "version = 1\nlive = { cache = \"halves\" }"),
        ("version = 1", "version = 1\nplatform = { preset = \"p4080\", colors = [0] }"),
        ("version = 1", "version = 1\nplatform = { preset = \"p4080\", cache = { size = 6 } }"),
        ("version = 1", "version = 1\nplatform = { class = [{ name = \"a\", cores = 1 }] }"),
        ("command = [\"true\"]", "command = [\"true\"]\npace = \"mfc\""),
        ("command = [\"true\"]", "command = [\"true\"]\npace = { fast = \"2T\" }"),
        ("command = [\"true\"]", "command = [\"true\"]\npace = [{ fast = \"2G\" }]"),
        ("command = [\"true\"]", "command = [\"true\"]\nmemory = \"m_jmp\""),
        ("command = [\"true\"]", "command = [\"true\"]\nmemory = { pattern = \"zigzag\" }"),
        ("command = [\"true\"]", "command = [\"true\"]\ncriticality = \"some\""),
        ("command = [\"true\"]", "command = [\"true\"]\nbandwidth = \"1 GB\""),
    ] {
        let bad = good.replace(from, to);
        assert!(!valid(&bad), "the schema accepts\n{bad}");
        let read: Result<Scenario, Error> = Scenario::parse(&bad, "x");
        assert!(read.is_err(), "the reader accepts\n{bad}");
    }
}

fn property_keys(table: &Value) -> BTreeSet<String> {
    table["properties"].as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect()
}

fn expect(table: &Value, keys: &Keys) {
    let known: BTreeSet<_> = keys.keys.iter().map(|key| (*key).to_owned()).collect();
    assert_eq!(property_keys(table), known, "{}", keys.table);
    let open = table["additionalProperties"] != Value::Bool(false);
    assert_eq!(open, keys.open, "{}: whether other keys may stand there", keys.table);
}

#[test]
fn the_schema_has_the_keys_of_the_reader() {
    let schema = schema();
    expect(&schema, &keys::ROOT);
    for (name, keys) in [
        ("platform", &keys::PLATFORM),
        ("policy", &keys::POLICY),
        ("run", &keys::RUN),
        ("overheads", &keys::OVERHEADS),
        ("live", &keys::LIVE),
    ] {
        expect(&schema["properties"][name], keys);
    }
    let platform = &schema["properties"]["platform"]["properties"];
    expect(&platform["dram"], &keys::DRAM);
    expect(&platform["cache"], &keys::CACHE);
    expect(&schema["$defs"]["class"], &keys::CLASS);
    let names: Vec<_> = presets::platforms().collect();
    assert_eq!(platform["preset"]["enum"], Value::from(names));
    let definitions = &schema["$defs"];
    expect(&definitions["device"], &keys::DEVICE);
    expect(&definitions["memory"]["oneOf"][1], &keys::MEMORY);
    expect(&definitions["phase"], &keys::PHASE);
    let mut names: Vec<_> = presets::workloads().collect();
    names.sort_unstable();
    let known = &definitions["memory"]["oneOf"][0]["anyOf"][0]["enum"];
    assert_eq!(*known, Value::from(names));
    let names: Vec<_> = presets::paces().collect();
    let pace = &definitions["pace"]["oneOf"];
    assert_eq!(pace[0]["enum"], Value::from(names));
    expect(&pace[1], &keys::PACE);
    expect(&definitions["pace_phase"], &keys::PACE);
    expect(&definitions["vcpu"], &keys::VCPU);
    expect(&definitions["program"], &keys::PROGRAM);
    expect(&definitions["program"]["properties"]["env"], &keys::ENV);
    let kinds = definitions["workload"]["oneOf"].as_array().expect("a list of kinds");
    assert_eq!(kinds.len(), keys::WORKLOAD_KINDS.len());
    for (kind, (word, keys)) in kinds.iter().zip(&keys::WORKLOAD_KINDS) {
        assert_eq!(kind["properties"]["kind"]["const"], *word);
        expect(kind, keys);
    }
    let costs = definitions["cost"]["oneOf"].as_array().expect("a list of costs");
    let cost_keys: BTreeSet<_> = costs.iter().flat_map(property_keys).collect();
    assert_eq!(cost_keys, keys::COST.keys.iter().map(|key| (*key).to_owned()).collect());
}

#[test]
fn every_key_stands_in_the_reference() {
    let document = text(root().join("docs/scenario.md"));
    for table in TABLES {
        for key in table.keys {
            let found = document.contains(&format!("`{key}`"))
                || document.contains(&format!("{{ {key} = "));
            assert!(found, "docs/scenario.md does not say what `{key}` of {} is", table.table);
        }
    }
    for (kind, _) in &keys::WORKLOAD_KINDS {
        assert!(document.contains(&format!("`\"{kind}\"`")), "workload kind {kind}");
    }
    for name in presets::platforms().chain(presets::workloads()).chain(presets::paces()) {
        assert!(document.contains(&format!("`\"{name}\"`")), "{name}");
    }
}

#[test]
fn every_sensor_stands_in_the_documents_in_its_order() {
    // Each once, and in this order.
    let in_order = |name: &str, pattern: &dyn Fn(&str) -> String, words: Vec<&str>| {
        let document = text(root().join(name));
        let place = |word: &&str| document.find(&pattern(word)).ok_or_else(|| pattern(word));
        let places: Result<Vec<_>, _> = words.iter().map(place).collect();
        assert!(places.as_ref().is_ok_and(|it| it.is_sorted()), "{name}: {places:?}");
    };
    let tried = || SensorKind::tried().map(SensorKind::word).collect::<Vec<_>>();
    in_order("docs/doctor.md", &|word| format!("`sensor {word}`"), tried());
    let named = || tried().into_iter().chain([SensorKind::Faults.word()]).collect();
    in_order("docs/scenario.md", &|word| format!("`\"{word}\"`"), named());
    in_order("docs/sensing.md", &|word| format!("\n| `{word}` | "), named());
    let words: Vec<_> = Sense::words().map(|word| word.replace("FILE", ".+")).collect();
    let pattern = &schema()["properties"]["live"]["properties"]["sense"]["pattern"];
    assert_eq!(*pattern, format!("^({})$", words.join("|")));
}
