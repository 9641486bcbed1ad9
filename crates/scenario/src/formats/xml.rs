//! XML in which every element and attribute knows its place.

use super::decimal::{self, Decimal, Unit};
use super::task::Given;
use crate::error::{Error, Location, Source, did_you_mean, quoted};
use roxmltree::{Document, Node};

/// The document that a text holds. Document types are refused, and with them entities that grow.
pub(super) fn parse<'a>(source: &Source<'a>) -> Result<Document<'a>, Error> {
    let text = source.text.trim_start_matches('\u{feff}');
    Document::parse(text).map_err(|error| {
        let at = error.pos();
        let what = error.to_string().replace(&format!(" at {at}"), "");
        let at = Location { line: at.row as usize, column: at.col as usize };
        if matches!(error, roxmltree::Error::DtdDetected) {
            let message = "document types are not read, and none of these formats has one; drop \
                           <!DOCTYPE ...>";
            return Error::new(source.file, at, message);
        }
        Error::new(source.file, at, format!("this is no XML: {what}; mend it here"))
    })
}

/// The comments before the root element, a line each.
pub(super) fn head_comments(document: &Document<'_>) -> Vec<String> {
    let head = document.root().children().take_while(|node| !node.is_element());
    let comments = head.filter(Node::is_comment).filter_map(|node| node.text());
    let lines = comments.flat_map(|text| text.trim().lines().map(str::trim));
    lines.map(str::to_owned).collect()
}

/// An element in its place.
#[derive(Clone, Copy)]
pub(super) struct Element<'a, 'd> {
    source: &'d Source<'d>,
    node: Node<'a, 'd>,
}

/// An attribute in its place.
#[derive(Clone, Copy)]
pub(super) struct Attribute<'a> {
    pub(super) at: usize,
    pub(super) text: &'a str,
}

impl<'a, 'd> Element<'a, 'd> {
    pub(super) fn root(source: &'d Source<'d>, document: &'a Document<'d>) -> Self {
        Self { source, node: document.root_element() }
    }
    pub(super) fn name(&self) -> &'a str {
        self.node.tag_name().name()
    }
    /// Where it begins. A mark before the text counts as no column.
    pub(super) fn at(&self) -> usize {
        self.offset(self.node.range().start)
    }
    fn offset(&self, parsed: usize) -> usize {
        parsed + (self.source.text.len() - self.node.document().input_text().len())
    }
    pub(super) fn error(&self, message: impl Into<String>) -> Error {
        self.source.error(self.at(), message)
    }

    /// The elements in it, all of which must be among `known`; text between them is refused.
    pub(super) fn elements(&self, known: &[&'static str]) -> Result<Vec<Self>, Error> {
        let mut elements = Vec::new();
        for node in self.node.children() {
            let element = Self { node, ..*self };
            if node.is_element() {
                if !known.contains(&element.name()) {
                    let (word, inside) = (quoted(element.name()), self.name());
                    let word = word.trim_matches('"');
                    let hint = if known.is_empty() {
                        format!("<{inside}> holds no elements")
                    } else {
                        did_you_mean(element.name(), known.iter().copied(), "elements here")
                    };
                    return Err(element.error(format!("unknown element <{word}>; {hint}")));
                }
                elements.push(element);
            } else if node.text().is_some_and(|text| node.is_text() && !text.trim().is_empty()) {
                let inside = self.name();
                return Err(element.error(format!("text stands in <{inside}>; drop it")));
            }
        }
        Ok(elements)
    }

    /// Refuses attributes that are not among `known` and not among `others`.
    pub(super) fn check_attributes(
        &self,
        known: &[&'static str],
        others: &[&str],
    ) -> Result<(), Error> {
        for attribute in self.node.attributes() {
            let name = attribute.name();
            if !known.contains(&name) && !others.contains(&name) {
                let shown = quoted(name).replace('"', "`");
                let hint = did_you_mean(name, known.iter().copied(), "attributes here");
                let at = self.offset(attribute.range().start);
                let message = format!("unknown attribute {shown} of <{}>; {hint}", self.name());
                return Err(self.source.error(at, message));
            }
        }
        Ok(())
    }
    pub(super) fn attribute(&self, name: &str) -> Option<Attribute<'a>> {
        let attribute = self.node.attribute_node(name)?;
        let at = self.offset(attribute.range_value().start);
        Some(Attribute { at, text: attribute.value() })
    }
    /// The attribute, if it says anything but `usual`.
    pub(super) fn unusual(&self, name: &str, usual: &[&str]) -> Option<&'a str> {
        let text = self.attribute(name)?.text.trim();
        (!text.is_empty() && !usual.contains(&text)).then_some(text)
    }
    /// A time and whether it was cut to whole nanoseconds; `None` where the attribute is missing.
    pub(super) fn time(
        &self,
        label: &'static str,
        unit: Unit,
    ) -> Result<Option<(Given, bool)>, Error> {
        let Some(Attribute { at, text }) = self.attribute(label) else { return Ok(None) };
        let text = text.trim();
        let Decimal { time, cut } = decimal::time(text, unit).map_err(|why| {
            let shown = quoted(text);
            self.source.error(at, format!("{label} {} {why}", shown.trim_matches('"')))
        })?;
        let text = text.chars().take(40).collect();
        Ok(Some((Given { label, at, text, time }, cut)))
    }
    pub(super) fn needed_time(
        &self,
        label: &'static str,
        unit: Unit,
    ) -> Result<(Given, bool), Error> {
        self.time(label, unit)?.ok_or_else(|| {
            let name = self.name();
            self.error(format!("this <{name}> has no `{label}`; add {label}=\"10\""))
        })
    }
}

/// `text` as the value of an attribute.
pub(super) fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    text.replace(char::is_control, " ")
}

/// Lines as comments before the root element.
pub(super) fn comments(lines: &[String]) -> String {
    // Two dashes would end the comment.
    let clean = |line: &String| line.replace(char::is_control, " ").replace("--", "- -");
    lines.iter().map(|line| format!("<!-- {} -->\n", clean(line).trim_end_matches('-'))).collect()
}
