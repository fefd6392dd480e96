"""Parses the patterns of labels with which users select cells."""


def label_patterns(text: str) -> dict[str, str]:
    """Returns the patterns of labels, of `stack=raid1,workload=rand*`. Raises ValueError."""
    patterns = {}
    for term in text.split(","):
        label, equals, pattern = (part.strip() for part in term.partition("="))
        if not equals or not label:
            raise ValueError(f"{term!r}: expected LABEL=PATTERN, such as stack=raid1")
        patterns[label] = pattern
    return patterns
