//! Numbers and words out of a line's bytes, without allocation.

/// What is left of a line.
#[derive(Clone, Copy)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Starts at the beginning of `line`.
    pub fn new(line: &'a [u8]) -> Fields<'a> {
        Fields { rest: line }
    }

    /// Bytes not yet taken.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// True when nothing is left but white space.
    pub fn is_done(&self) -> bool {
        self.rest.trim_ascii_start().is_empty()
    }

    /// Takes one expected byte.
    #[inline]
    pub fn byte(&mut self, wanted: u8) -> Option<()> {
        let (&first, rest) = self.rest.split_first()?;
        (first == wanted).then(|| self.rest = rest)
    }

    /// Takes spaces and tabs.
    #[inline]
    pub fn spaces(&mut self) {
        while let [b' ' | b'\t', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    /// Takes a whole number: digits only, at most `u64::MAX`.
    #[inline]
    pub fn number(&mut self) -> Option<u64> {
        let mut value = 0u64;
        let mut len = 0;
        while let Some(digit) = self.rest.get(len).map(|b| b.wrapping_sub(b'0'))
            && digit < 10
        {
            value = if len < 18 {
                value * 10 + u64::from(digit)
            } else {
                value.checked_mul(10)?.checked_add(u64::from(digit))?
            };
            len += 1;
        }
        self.rest = &self.rest[len..];
        (len > 0).then_some(value)
    }

    /// Takes a whole number that fits 32 bits.
    #[inline]
    pub fn number32(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    /// Takes a decimal number and gives it in units of 10^-`digits`; finer digits are dropped.
    #[inline]
    pub fn decimal(&mut self, digits: u32) -> Option<u64> {
        let mut value = self.number()?;
        let mut have = 0;
        if let [b'.', rest @ ..] = self.rest {
            self.rest = rest;
            while let Some(digit) = self.rest.first().map(|b| b.wrapping_sub(b'0'))
                && digit < 10
            {
                if have < digits {
                    value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
                    have += 1;
                }
                self.rest = &self.rest[1..];
            }
        }
        value.checked_mul(10u64.checked_pow(digits - have)?)
    }

    /// Takes what stands before the next `end`, and `end` itself where there is one.
    #[inline]
    pub fn until(&mut self, end: u8) -> &'a [u8] {
        let at = self.rest.iter().position(|&b| b == end);
        let word = &self.rest[..at.unwrap_or(self.rest.len())];
        self.rest = at.map_or(&[], |at| &self.rest[at + 1..]);
        word
    }

    /// Takes the next word: skips white space before it, stops before the white space after it.
    #[inline]
    pub fn word(&mut self) -> &'a [u8] {
        self.spaces();
        let at = self.rest.iter().position(|&b| b == b' ' || b == b'\t');
        let (word, rest) = self.rest.split_at(at.unwrap_or(self.rest.len()));
        self.rest = rest;
        word
    }
}

/// A number that is the whole of `text`.
pub fn whole_number(text: &[u8]) -> Option<u64> {
    let mut fields = Fields::new(text);
    let value = fields.number()?;
    fields.rest().is_empty().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stop_at_what_is_no_digit_and_refuse_what_does_not_fit() {
        let mut fields = Fields::new(b"18446744073709551615,x");
        assert_eq!(fields.number(), Some(u64::MAX));
        assert_eq!(fields.byte(b','), Some(()));
        assert_eq!(fields.number(), None);
        assert_eq!(Fields::new(b"18446744073709551616").number(), None);
        assert_eq!(Fields::new(b"4294967296").number32(), None);
        assert_eq!(whole_number(b"12 "), None);
    }

    #[test]
    fn decimals_scale() {
        assert_eq!(Fields::new(b"1.5").decimal(9), Some(1_500_000_000));
        assert_eq!(Fields::new(b"7").decimal(3), Some(7000));
        assert_eq!(Fields::new(b"0.1234567899").decimal(9), Some(123_456_789));
        assert_eq!(Fields::new(b"99999999999999").decimal(9), None);
        assert_eq!(Fields::new(b".5").decimal(9), None);
    }
}
