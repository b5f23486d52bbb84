package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"time"
)

// cpuSample is the CPU time of one call stack.
type cpuSample struct {
	// stack has the names of the functions, the innermost first. Inlined functions are among them.
	stack []string
	cpu   time.Duration
}

var errProfile = errors.New("the CPU profile has a form that this program does not know")

// readCPUProfile reads a profile of runtime/pprof, which is a gzipped message of protocol buffers. It reads the few fields that the stacks need:
//
//	Profile:  2 Sample, 4 Location, 5 Function, 6 text of the string table
//	Sample:   1 ids of locations, 2 values: count, nanoseconds
//	Location: 1 id, 4 Line
//	Line:     1 id of the function
//	Function: 1 id, 2 index of the name
func readCPUProfile(r io.Reader) ([]cpuSample, error) {
	zr, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(zr)
	if err != nil {
		return nil, err
	}
	return readCPUStacks(data)
}

func readCPUStacks(data []byte) ([]cpuSample, error) {
	type sample struct{ locations, values []uint64 }
	var (
		samples   []sample
		texts     []string
		locations = make(map[uint64][]uint64) // ids of functions, the innermost first
		functions = make(map[uint64]uint64)   // indexes of names
	)
	err := eachField(data, func(field int, _ uint64, message []byte) (err error) {
		var id, name uint64
		switch field {
		case 2:
			var s sample
			err = eachField(message, func(field int, v uint64, packed []byte) error {
				switch field {
				case 1:
					return appendVarints(&s.locations, v, packed)
				case 2:
					return appendVarints(&s.values, v, packed)
				}
				return nil
			})
			samples = append(samples, s)
		case 4:
			var lines []uint64
			err = eachField(message, func(field int, v uint64, line []byte) error {
				switch field {
				case 1:
					id = v
				case 4:
					return eachField(line, func(field int, v uint64, _ []byte) error {
						if field == 1 {
							lines = append(lines, v)
						}
						return nil
					})
				}
				return nil
			})
			locations[id] = lines
		case 5:
			err = eachField(message, func(field int, v uint64, _ []byte) error {
				switch field {
				case 1:
					id = v
				case 2:
					name = v
				}
				return nil
			})
			functions[id] = name
		case 6:
			texts = append(texts, string(message))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	list := make([]cpuSample, len(samples))
	for i, s := range samples {
		if len(s.values) != 2 {
			return nil, errProfile
		}
		list[i].cpu = time.Duration(s.values[1])
		for _, location := range s.locations {
			for _, function := range locations[location] {
				name := functions[function]
				if name >= uint64(len(texts)) {
					return nil, errProfile
				}
				list[i].stack = append(list[i].stack, texts[name])
			}
		}
	}
	return list, nil
}

// eachField calls fn for each field of a message, with the number of a varint or with the bytes of a text, message or packed list.
func eachField(data []byte, fn func(field int, v uint64, b []byte) error) error {
	for r := bytes.NewReader(data); r.Len() > 0; {
		tag, err := binary.ReadUvarint(r)
		if err != nil {
			return errProfile
		}
		v, err := binary.ReadUvarint(r)
		if err != nil {
			return errProfile
		}
		var b []byte
		switch tag & 7 {
		case 0:
		case 2:
			if v > uint64(r.Len()) {
				return errProfile
			}
			at := len(data) - r.Len()
			b = data[at : at+int(v)]
			_, _ = r.Seek(int64(v), io.SeekCurrent)
		default:
			return errProfile
		}
		if err := fn(int(tag>>3), v, b); err != nil {
			return err
		}
	}
	return nil
}

// appendVarints appends a packed list, or one number if packed is nil.
func appendVarints(list *[]uint64, v uint64, packed []byte) error {
	if packed == nil {
		*list = append(*list, v)
		return nil
	}
	for len(packed) > 0 {
		v, n := binary.Uvarint(packed)
		if n <= 0 {
			return errProfile
		}
		*list, packed = append(*list, v), packed[n:]
	}
	return nil
}
