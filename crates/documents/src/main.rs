//! Writes crates/documents/schema.json: the JSON Schema of every document that Rust and Python exchange. `make types`
//! runs it, and then makes python/blklab/documents of it.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, generate::SchemaSettings};
use serde_json::Value;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/schema.json");
const LEFT_OUT: [&str; 6] = ["$schema", "description", "format", "minimum", "maximum", "default"];

/// The schema of a document that Python writes and Rust reads.
fn read_schema<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().for_deserialize().into_generator().into_root_schema_for::<T>()
}

/// The schema of a document that Rust writes and Python reads.
fn written_schema<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>()
}

/// The schemas of all documents by name, as JSON.
fn schemas() -> String {
    let documents = BTreeMap::from([
        ("cache_curves", written_schema::<blklab_cache::curve::CacheCurves>()),
        ("cell", read_schema::<blklab_sim::cell::Cell>()),
        ("outcome", written_schema::<blklab_sim::outcome::Outcome>()),
        ("profile", written_schema::<blklab_trace::characterise::profile::Profile>()),
        ("superblock", written_schema::<blklab_md::Examined>()),
    ]);
    let lines = documents.into_iter().map(|(name, schema)| format!("\"{name}\": {}", strip_schema(schema.to_value())));
    format!("{{\n{}\n}}\n", lines.collect::<Vec<_>>().join(",\n"))
}

/// A schema without the keys that Python types cannot express, such as descriptions and bounds.
fn strip_schema(schema: Value) -> Value {
    let Value::Object(table) = schema else { return schema };
    let kept = table.into_iter().filter(|(key, _)| !LEFT_OUT.contains(&key.as_str()));
    let inner = |(key, value): (String, Value)| match (key.as_str(), value) {
        ("properties" | "$defs", Value::Object(named)) => {
            (key, named.into_iter().map(|(name, schema)| (name, strip_schema(schema))).collect())
        }
        (_, Value::Array(schemas)) => (key, schemas.into_iter().map(strip_schema).collect()),
        (_, schema) => (key, strip_schema(schema)),
    };
    Value::Object(kept.map(inner).collect())
}

fn main() -> std::io::Result<()> {
    std::fs::write(PATH, schemas())
}

#[test]
fn schema_json_matches_the_types() {
    let written = std::fs::read_to_string(PATH).expect("schema.json must exist");
    assert!(written == schemas(), "the types have changed: run `make types` to write schema.json and the Python types");
}
