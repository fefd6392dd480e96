//! Numbers and words out of a line's bytes, without allocation.

/// The unread part of a line.
#[derive(Clone, Copy)]
pub struct Fields<'a> {
    pub remaining: &'a [u8], // The unread bytes
}

impl<'a> Fields<'a> {
    /// Starts at the beginning of `line`.
    pub fn new(line: &'a [u8]) -> Fields<'a> {
        Fields { remaining: line }
    }

    /// True if only white space is left.
    pub fn is_done(&self) -> bool {
        self.remaining.trim_ascii_start().is_empty()
    }

    /// Takes one expected byte.
    pub fn byte(&mut self, wanted: u8) -> Option<()> {
        let (&first, remaining) = self.remaining.split_first()?;
        (first == wanted).then(|| self.remaining = remaining)
    }

    /// Takes spaces and tabs.
    pub fn spaces(&mut self) {
        while let [b' ' | b'\t', remaining @ ..] = self.remaining {
            self.remaining = remaining;
        }
    }

    /// Takes a whole number: digits only, at most `u64::MAX`.
    pub fn number(&mut self) -> Option<u64> {
        let mut value = 0u64;
        let mut len = 0;
        while let Some(digit) = self.remaining.get(len).map(|b| b.wrapping_sub(b'0'))
            && digit < 10
        {
            value = if len < 18 {
                value * 10 + u64::from(digit)
            } else {
                value.checked_mul(10)?.checked_add(u64::from(digit))?
            };
            len += 1;
        }
        self.remaining = &self.remaining[len..];
        (len > 0).then_some(value)
    }

    /// Takes a whole number that fits 32 bits.
    pub fn number32(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    /// Takes a decimal number and gives it in units of 10^-`digits`; finer digits are dropped.
    pub fn decimal(&mut self, digits: u32) -> Option<u64> {
        let mut value = self.number()?;
        let mut have = 0;
        if let [b'.', remaining @ ..] = self.remaining {
            self.remaining = remaining;
            while let Some(digit) = self.remaining.first().map(|b| b.wrapping_sub(b'0'))
                && digit < 10
            {
                if have < digits {
                    value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
                    have += 1;
                }
                self.remaining = &self.remaining[1..];
            }
        }
        value.checked_mul(10u64.checked_pow(digits - have)?)
    }

    /// Takes everything before the next `end`, and `end` itself if there is one.
    pub fn until(&mut self, end: u8) -> &'a [u8] {
        let at = self.remaining.iter().position(|&b| b == end);
        let word = &self.remaining[..at.unwrap_or(self.remaining.len())];
        self.remaining = at.map_or(&[], |at| &self.remaining[at + 1..]);
        word
    }

    /// Takes the next word: skips white space before it, stops before the white space after it.
    pub fn word(&mut self) -> &'a [u8] {
        self.spaces();
        let at = self.remaining.iter().position(|&b| b == b' ' || b == b'\t');
        let (word, remaining) = self.remaining.split_at(at.unwrap_or(self.remaining.len()));
        self.remaining = remaining;
        word
    }
}

/// The number that `text` consists of.
pub fn whole_number(text: &[u8]) -> Option<u64> {
    let mut fields = Fields::new(text);
    let value = fields.number()?;
    fields.remaining.is_empty().then_some(value)
}

#[cfg(test)]
mod tests;
