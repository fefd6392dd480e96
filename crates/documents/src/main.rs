//! Prints the JSON Schema of every document that Rust and Python exchange. `make types` makes python/blklab/documents of
//! it, `make reference` docs/reference/documents.md.

use std::collections::BTreeMap;
use std::io::{self, Write};

use blklab_sim::cell::{ControllerSpec, FlashSpec, HddSpec, ThrottledSpec};
use schemars::{JsonSchema, Schema, generate::SchemaSettings};
use serde_json::Value;

const LEFT_OUT: [&str; 4] = ["$schema", "format", "minimum", "maximum"];

/// The parameters of simulated devices, as a cell and (with other names and units) an experiment file have them.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its schema is used")]
struct DeviceParameters {
    /// Of `ssd` and `nvme`.
    flash: FlashSpec,
    /// Of `hdd`.
    hdd: HddSpec,
    /// Of `throttled`.
    throttled: ThrottledSpec,
    /// Of a controller.
    controller: ControllerSpec,
}

/// The schema of a document that Python writes and Rust reads.
fn read_schema<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().for_deserialize().into_generator().into_root_schema_for::<T>()
}

/// The schema of a document that Rust writes and Python reads.
fn written_schema<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>()
}

/// The schemas of all documents by name.
fn schemas() -> BTreeMap<&'static str, Value> {
    let documents = [
        ("cache_curves", written_schema::<blklab_cache::curve::CacheCurves>()),
        ("cell", read_schema::<blklab_sim::cell::Cell>()),
        ("device_parameters", read_schema::<DeviceParameters>()),
        ("outcome", written_schema::<blklab_sim::outcome::Outcome>()),
        ("profile", written_schema::<blklab_trace::characterise::profile::Profile>()),
        ("superblock", written_schema::<blklab_md::Examined>()),
    ];
    documents.into_iter().map(|(name, schema)| (name, strip_schema(schema.to_value()))).collect()
}

/// A schema without the keys that neither types nor pages need, such as bounds.
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

fn main() -> io::Result<()> {
    serde_json::to_writer(io::stdout().lock(), &schemas())?;
    io::stdout().write_all(b"\n")
}
