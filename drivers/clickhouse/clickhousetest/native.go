package clickhousetest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
)

// customSerialization is the revision since which each column of a block has a flag for that.
const customSerialization = 54454

// native returns the response to a query as a block in the format Native of a client's revision. The library writes that format for revision 0 only. rows
// are in the format JSONCompactStringsEachRowWithNamesAndTypes. The types are texts and numbers without a sign.
func native(rows []byte, revision int) ([]byte, error) {
	var lines [][]string
	for in := json.NewDecoder(bytes.NewReader(rows)); in.More(); {
		var line []string
		if err := in.Decode(&line); err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	if len(lines) < 2 {
		return nil, nil
	}
	names, types, lines := lines[0], lines[1], lines[2:]
	var block []byte
	if revision > 0 {
		block = append(block, 1, 0, 2, 0xff, 0xff, 0xff, 0xff, 0) // it has no overflow row and no bucket
	}
	block = binary.AppendUvarint(block, uint64(len(names)))
	block = binary.AppendUvarint(block, uint64(len(lines)))
	for i, name := range names {
		block = appendText(appendText(block, name), types[i])
		if revision >= customSerialization {
			block = append(block, 0)
		}
		for _, line := range lines {
			if types[i] == "String" {
				block = appendText(block, line[i])
				continue
			}
			var bits int
			if _, err := fmt.Sscanf(types[i], "UInt%d", &bits); err != nil {
				return nil, fmt.Errorf("the type %s is not implemented", types[i])
			}
			n, err := strconv.ParseUint(line[i], 10, bits)
			if err != nil {
				return nil, err
			}
			block = append(block, binary.LittleEndian.AppendUint64(nil, n)[:bits/8]...)
		}
	}
	return block, nil
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}
