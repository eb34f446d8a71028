//! The protobuf wire format: a message is a sequence of numbered parts.

/// The content of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// A varint.
    Number(u64),
    /// Text, bytes or a message.
    Bytes(&'a [u8]),
}

/// The parts of a message; an entry is `None`, and the last one, where the message is malformed.
#[derive(Debug, Clone)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Reader<'a> {
    type Item = Option<(u64, Part<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let part = self.part();
        if part.is_none() {
            self.0 = &[];
        }
        Some(part)
    }
}

impl<'a> Reader<'a> {
    fn part(&mut self) -> Option<(u64, Part<'a>)> {
        let tag = self.varint()?;
        let part = match tag & 7 {
            0 => Part::Number(self.varint()?),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                let (bytes, rest) = self.0.split_at_checked(length)?;
                self.0 = rest;
                Part::Bytes(bytes)
            }
            // No field of a served kind has another wire type.
            _ => return None,
        };
        Some((tag >> 3, part))
    }

    fn varint(&mut self) -> Option<u64> {
        let mut out = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            out |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(out);
            }
        }
        None
    }
}
