use super::*;

/// Every key of a schema that has no meaning, as `where.key`. Also each value of an enumeration.
fn without_meaning(place: &str, schema: &Value, lacking: &mut Vec<String>) {
    if let Some(properties) = schema["properties"].as_object() {
        for (key, property) in properties {
            // A constant says which variant it is: the variant has the meaning. So has the only key of a variant.
            let has_own = property["description"].is_string() || property["const"].is_string() || properties.len() == 1;
            if !has_own || !(property["description"].is_string() || schema["description"].is_string()) {
                lacking.push(format!("{place}.{key}"));
            }
        }
    }
    for variant in schema["oneOf"].as_array().into_iter().flatten() {
        if !variant["description"].is_string() {
            lacking.push(format!("{place}: {variant}"));
        }
        without_meaning(place, variant, lacking);
    }
    if schema["enum"].is_array() {
        lacking.push(format!("{place}: {}", schema["enum"]));
    }
}

#[test]
fn every_key_has_a_meaning() {
    let mut lacking = Vec::new();
    for (document, schema) in schemas() {
        let types = schema["$defs"].as_object().into_iter().flatten();
        for (name, of_type) in types.map(|(name, of_type)| (name.as_str(), of_type)).chain([("", &schema)]) {
            if !of_type["description"].is_string() {
                lacking.push(format!("{document} {name}"));
            }
            without_meaning(&format!("{document} {name}"), of_type, &mut lacking);
        }
    }
    assert!(lacking.is_empty(), "no /// above these keys in Rust: {lacking:#?}");
}
