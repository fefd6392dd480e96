use super::*;

#[test]
fn versions_are_read_with_any_suffix() {
    assert_eq!(Kernel::parse("4.19").unwrap(), Kernel(4, 19));
    assert_eq!(Kernel::parse("2.6.24-etchnhalf").unwrap(), Kernel(2, 6));
    assert!(Kernel::parse("5.3.0+").unwrap().raid10_prefers_idle());
    assert!(!Kernel::parse("5.2").unwrap().raid10_prefers_idle());
    for text in ["", "4", "four", "1.2", "42.0", "4."] {
        assert!(Kernel::parse(text).is_err(), "{text}");
    }
}

#[test]
fn kernels_after_6_12_differ() {
    let kernel = |text| Kernel::parse(text).unwrap();
    for (text, keeps, yields) in
        [("6.1", false, false), ("6.12", true, false), ("6.14", false, false), ("6.15", true, false)]
    {
        assert_eq!((kernel(text).mirrors_keep_flags(), kernel(text).resync_yields()), (keeps, yields), "{text}");
    }
    assert!(kernel("7.3").mirrors_keep_flags() && kernel("7.3").resync_yields());
}

#[test]
fn every_question_is_among_the_answers() {
    // Cells whose kernels have the same answers are simulated once. What `differences!` declares is there by itself.
    let source = include_str!("../kernel.rs");
    let answers = source.split("pub fn answers").nth(1).and_then(|rest| rest.split('}').next()).unwrap();
    let functions = source.split("pub fn ").skip(1).filter_map(|rest| rest.split_once("(self"));
    let questions: Vec<&str> = functions.map(|(name, _)| name).filter(|name| !name.contains(['$', '('])).collect();
    assert!(questions.contains(&"array_flush") && questions.contains(&"answers"), "{questions:?}");
    for question in questions.into_iter().filter(|&question| question != "answers") {
        assert!(answers.contains(&format!("self.{question}(")), "{question} is missing in `answers`");
    }
}
