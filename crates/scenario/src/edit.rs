//! Changes to the text of a scenario file that leave all the rest of it as it was written.

use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// `text` with the budget of the VCPU of this name, which its own table or its program's says;
/// `None` where none does.
#[must_use]
pub fn with_budget(text: &str, vcpu: &str, budget: &str) -> Option<String> {
    let document = DeTable::parse(text).ok()?;
    let tables = ["vcpu", "program"].into_iter().filter_map(|key| document.get_ref().get(key));
    let tables = tables.filter_map(|value| value.get_ref().as_array());
    let named = tables.flat_map(|tables| tables.iter().filter_map(|it| it.get_ref().as_table()));
    let mut named =
        named.filter(|table| table.get("name").and_then(|it| it.get_ref().as_str()) == Some(vcpu));
    let span = named.find_map(|table| Some(table.get("budget")?.span()))?;
    Some(replaced(text, span, &format!("\"{budget}\"")))
}

/// `text` with `key = value` in `[table]`, in place of what stands there or after the first of its
/// keys that has a line of its own; `None` where there is no such line.
#[must_use]
pub fn with_key(text: &str, table: &str, key: &str, value: &str) -> Option<String> {
    let document = DeTable::parse(text).ok()?;
    let found = document.get_ref().get(table)?;
    let DeValue::Table(entries) = found.get_ref() else { return None };
    if let Some(old) = entries.get(key) {
        return Some(replaced(text, old.span(), value));
    }
    // Not within braces, nor behind a dotted key.
    let on_a_line =
        |at: usize| text[..at].rfind('\n').map_or(text[..at].trim(), |line| text[line..at].trim());
    let plain = entries.iter().filter(|(key, value)| {
        on_a_line(key.span().start).is_empty() && !matches!(value.get_ref(), DeValue::Table(_))
    });
    let after = plain.map(|(_, value)| value.span().end).min()?;
    let end = text[after..].find('\n').map_or(text.len(), |line| after + line);
    Some(replaced(text, end..end, &format!("\n{key} = {value}")))
}

fn replaced(text: &str, span: Range<usize>, value: &str) -> String {
    format!("{}{value}{}", &text[..span.start], &text[span.end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "version = 1 # one\n[platform]\npreset = \"i5-2500k\" # four cores\n\
                        [[program]]\nname = \"a\"\nbudget = \"8ms\" # much\nperiod = \"10ms\"\n\
                        [[program]]\nname = \"b\"\nbudget = '1ms'\n";

    #[test]
    fn a_budget_is_changed_where_it_stands() {
        let new = with_budget(TEXT, "b", "1500us").expect("it has one");
        assert_eq!(new, TEXT.replace("'1ms'", "\"1500us\""));
        assert!(with_budget(TEXT, "a", "9ms").is_some_and(|new| new.contains("\"9ms\" # much")));
        assert_eq!(with_budget(TEXT, "c", "9ms"), None);
    }

    #[test]
    fn a_key_is_added_behind_the_first_and_then_replaced() {
        let new = with_key(TEXT, "platform", "colors", "[1, 2]").expect("it has a line");
        assert_eq!(new, TEXT.replace("cores\n", "cores\ncolors = [1, 2]\n"));
        let newer = with_key(&new, "platform", "colors", "[3]").expect("it is there");
        assert_eq!(newer, new.replace("[1, 2]", "[3]"));
        assert_eq!(with_key(TEXT, "policy", "name", "\"p-rm\""), None);
        assert_eq!(with_key("platform = { cores = 1 }\n", "platform", "mhz", "1"), None);
    }
}
