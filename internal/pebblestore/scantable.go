package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/big"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// probes bounds the seeks for whole blocks between two damaged ones, because the store takes tens of milliseconds for each that
// ends in a damaged one, since it looks for a flipped bit that would explain it.
const probes = 128

// eachTableEntry calls fn with the readable entries of a table. The entry is valid during the call. Some come more than
// once. lost is called with the damage on the way. err is the error of fn.
func eachTableEntry(disk vfs.FS, path string, fn func(Entry) error, lost func(error)) (err error) {
	stopped := false
	call := func(e Entry) error {
		err := fn(e)
		stopped = stopped || err != nil
		return err
	}
	if e := readTable(disk, path, call, lost); e != nil {
		if stopped {
			return e
		}
		lost(e)
	}
	return nil
}

func readTable(disk vfs.FS, path string, fn func(Entry) error, lost func(error)) (err error) {
	// The readers of the store trust bytes whose checksum is right, and may panic on the decoded content.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("read table: %v", r)
		}
	}()
	f, err := disk.Open(path, vfs.RandomReadsOption)
	if err != nil {
		return err
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r, err := sstable.NewReader(context.Background(), readable, sstable.ReaderOptions{})
	if err != nil {
		return errors.Join(err, readable.Close())
	}
	defer r.Close()
	deleted, err := r.NewRawRangeDelIter(context.Background(), sstable.NoFragmentTransforms, sstable.NoReadEnv)
	switch {
	case err != nil:
		lost(err)
	case deleted != nil:
		span, err := deleted.First()
		for ; span != nil; span, err = deleted.Next() {
			if err := fn(Entry{pebble.InternalKeyKindRangeDelete, span.Start, span.End, uint64(span.LargestSeqNum())}); err != nil {
				deleted.Close()
				return err
			}
		}
		deleted.Close()
		if err != nil {
			lost(err)
		}
	}
	it, err := r.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
	if err != nil {
		return err
	}
	defer it.Close()
	t := &tableScan{it: it, fn: fn}
	if err := t.scan(); err != nil || t.damage == nil {
		return err
	}
	lost(t.damage)
	return nil
}

// tableScan reads the points of a table from both ends, and then looks for whole blocks between the unreadable blocks.
type tableScan struct {
	it     sstable.Iterator
	fn     func(Entry) error
	damage error
}

func (t *tableScan) scan() error {
	kv := t.it.First()
	var last, first []byte
	for ; kv != nil; kv = t.it.Next() {
		if err := t.emit(kv.Kind(), kv.K.UserKey, uint64(kv.SeqNum()), kv.Value); err != nil {
			return err
		}
		last = append(last[:0], kv.K.UserKey...)
	}
	if t.damage = t.it.Error(); t.damage == nil {
		return nil
	}
	for kv := t.it.Last(); kv != nil && bytes.Compare(kv.K.UserKey, last) > 0; kv = t.it.Prev() {
		if err := t.emit(kv.Kind(), kv.K.UserKey, uint64(kv.SeqNum()), kv.Value); err != nil {
			return err
		}
		first = append(first[:0], kv.K.UserKey...)
	}
	if err := t.it.Error(); err != nil && err.Error() == t.damage.Error() {
		return nil // it is one block, and everything on both sides is read
	}
	if first == nil {
		first = bytes.Repeat([]byte{0xff}, keySize)
	}
	return t.between(last, first)
}

// between probes what lies between two keys that are known, halving it again and again.
func (t *tableScan) between(last, first []byte) error {
	type span struct{ lo, hi *big.Int }
	keyOf := func(n *big.Int) []byte { return n.FillBytes(make([]byte, keySize)) }
	for queue, left := []span{{numberOf(last), numberOf(first)}}, probes; len(queue) > 0 && left > 0; left-- {
		s := queue[0]
		queue = queue[1:]
		mid := new(big.Int).Add(s.lo, s.hi)
		if mid.Rsh(mid, 1).Cmp(s.lo) <= 0 { // nothing lies in between
			continue
		}
		queue = append(queue, span{s.lo, mid})
		hi := keyOf(s.hi)
		kv := t.it.SeekGE(keyOf(mid), 0)
		if kv == nil && t.it.Error() != nil {
			queue = append(queue, span{mid, s.hi})
			continue
		}
		var came []byte
		for ; kv != nil && bytes.Compare(kv.K.UserKey, hi) < 0; kv = t.it.Next() {
			if err := t.emit(kv.Kind(), kv.K.UserKey, uint64(kv.SeqNum()), kv.Value); err != nil {
				return err
			}
			came = append(came[:0], kv.K.UserKey...)
		}
		if kv == nil && t.it.Error() != nil && came != nil {
			queue = append(queue, span{numberOf(came), s.hi})
		}
	}
	return nil
}

func (t *tableScan) emit(kind pebble.InternalKeyKind, key []byte, seq uint64, read func([]byte) ([]byte, bool, error)) error {
	value, _, err := read(nil)
	if err != nil {
		t.damage = err
		return nil
	}
	return t.fn(Entry{kind, key, value, seq})
}

// keySize is how many bytes of a key between looks at.
const keySize = 16

// numberOf is the first keySize bytes of a key as a number.
func numberOf(key []byte) *big.Int {
	var b [keySize]byte
	copy(b[:], key)
	return new(big.Int).SetBytes(b[:])
}
