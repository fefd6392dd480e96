//! Writes crates/documents/schema.json: the JSON Schema of every document that crosses between Rust and Python.
//! `make types` runs it, and then makes python/blklab/documents of it.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, generate::SchemaSettings};
use serde_json::Value;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/schema.json");
const LEFT_OUT: [&str; 6] = ["$schema", "description", "format", "minimum", "maximum", "default"];

/// The schema of what Python writes and Rust reads.
fn read<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().for_deserialize().into_generator().into_root_schema_for::<T>()
}

/// The schema of what Rust writes and Python reads.
fn written<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>()
}

/// All of them, by the name of the document.
fn schemas() -> String {
    let documents = BTreeMap::from([
        ("cell", read::<blklab_sim::cell::Cell>()),
        ("outcome", written::<blklab_sim::outcome::Outcome>()),
        ("profile", written::<blklab_trace::characterise::profile::Profile>()),
        ("superblock", written::<blklab_mdmeta::Examined>()),
    ]);
    let lines =
        documents.into_iter().map(|(name, schema)| format!("\"{name}\": {}", bare(schema.to_value())));
    format!("{{\n{}\n}}\n", lines.collect::<Vec<_>>().join(",\n"))
}

/// A schema without what no type says: descriptions and bounds are read where the type is.
fn bare(schema: Value) -> Value {
    let Value::Object(table) = schema else { return schema };
    let kept = table.into_iter().filter(|(key, _)| !LEFT_OUT.contains(&key.as_str()));
    let inner = |(key, value): (String, Value)| match (key.as_str(), value) {
        ("properties" | "$defs", Value::Object(named)) => {
            (key, named.into_iter().map(|(name, one)| (name, bare(one))).collect())
        }
        (_, Value::Array(many)) => (key, many.into_iter().map(bare).collect()),
        (_, one) => (key, bare(one)),
    };
    Value::Object(kept.map(inner).collect())
}

fn main() -> std::io::Result<()> {
    std::fs::write(PATH, schemas())
}

#[test]
fn the_schemas_are_those_of_the_types() {
    let written = std::fs::read_to_string(PATH).expect("schema.json is there");
    assert!(
        written == schemas(),
        "the types have changed: run `make types` to write schema.json and the Python types"
    );
}
