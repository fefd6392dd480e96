//! Every key of the documents has a meaning. This is an integration test so that cargo builds the program with the other
//! tests: scripts/document_types.py runs it.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

/// Adds every key without a meaning, and every value of an enumeration without one.
fn collect_without_meaning(place: &str, schema: &Value, is_variant: bool, lacking: &mut Vec<String>) {
    let has_meaning = |schema: &Value| schema["description"].is_string();
    if !has_meaning(schema) {
        lacking.push(format!("{place}: {schema}"));
    }
    let properties = schema["properties"].as_object();
    for (key, property) in properties.into_iter().flatten() {
        // A variant has the meaning of its only key, and of the key that says which variant it is.
        let is_of_variant =
            is_variant && (property["const"].is_string() || properties.is_some_and(|all| all.len() == 1));
        if !has_meaning(property) && !is_of_variant {
            lacking.push(format!("{place}: {key}"));
        }
    }
    for variant in schema["oneOf"].as_array().into_iter().flatten() {
        collect_without_meaning(place, variant, true, lacking);
    }
}

#[test]
fn every_key_has_a_meaning() {
    let printed = Command::new(env!("CARGO_BIN_EXE_blklab-documents")).output().expect("it prints the schemas");
    let schemas: BTreeMap<String, Value> = serde_json::from_slice(&printed.stdout).expect("it prints JSON");
    assert_eq!(schemas.len(), 6);
    let mut lacking = Vec::new();
    for (document, schema) in schemas {
        collect_without_meaning(&document, &schema, false, &mut lacking);
        for (name, of_type) in schema["$defs"].as_object().into_iter().flatten() {
            collect_without_meaning(&format!("{document}: {name}"), of_type, false, &mut lacking);
        }
    }
    assert!(lacking.is_empty(), "without a /// in Rust:\n{}", lacking.join("\n"));
}
