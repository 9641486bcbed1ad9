//! The binary `maracas`.

fn main() {}
