package quickgzip

import (
	"encoding/binary"
	"unsafe"
)

// The functions of this file do not look whether i is within b: who calls them has shown it for many calls at once. With
// the checks of the language long texts take a sixth longer.

func load32(b []byte, i int) uint32 {
	return binary.LittleEndian.Uint32((*[4]byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i))[:])
}

func load64(b []byte, i int) uint64 {
	return binary.LittleEndian.Uint64((*[8]byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i))[:])
}

func store64(b []byte, i int, v uint64) {
	binary.LittleEndian.PutUint64((*[8]byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i))[:], v)
}
