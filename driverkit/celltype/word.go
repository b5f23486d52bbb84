package celltype

import "encoding/binary"

// Eight characters are looked at in one word, the first in the lowest byte. Characters above 0x7f set the highest bit of their byte.
// An addition may carry into the next byte only from a byte that is refused anyway.

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// allDigits reports whether text has decimal digits only.
func allDigits(text []byte) bool {
	if len(text) < 8 {
		for _, c := range text {
			if c-'0' > 9 {
				return false
			}
		}
		return true
	}
	for i := 0; ; {
		x := binary.LittleEndian.Uint64(text[i:]) ^ '0'*ones
		if (x|(x+(0x7f-9)*ones))&highs != 0 {
			return false
		}
		if i += 8; i >= len(text) {
			return true
		}
		i = min(i, len(text)-8) // the last word overlaps the one before
	}
}

// lowerHex returns eight hexadecimal digits in lower case. Others set a highest bit in bad.
func lowerHex(x uint64) (lower, bad uint64) {
	lower = x | 0x20*ones
	digit := (lower + (0x80-'0')*ones) &^ (lower + (0x7f-'9')*ones)
	letter := (lower + (0x80-'a')*ones) &^ (lower + (0x7f-'f')*ones)
	// Control characters become printable ones with the bit 0x20. Digits have that bit, letters the bit 0x40.
	return lower, (x | ^(digit | letter) | ^(x<<1 | x<<2)) & highs
}
