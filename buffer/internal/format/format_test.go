package format

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/fuzztest"
	"github.com/forebay/forebay/trigger"
)

func TestKeysSortByTheirNumbers(t *testing.T) {
	chunk := func(slice uint64, seq uint32) []byte {
		key := make([]byte, ChunkKeySize)
		PutChunkKey(key, slice, seq)
		return key
	}
	for name, keys := range map[string][][]byte{
		"sinks":    {SinkKey(0), SinkKey(1), SinkKey(255), SinkKey(256), SinkKey(math.MaxUint32)},
		"files":    {FileKey(0), FileKey(1), FileKey(1 << 8), FileKey(1 << 40), FileKey(math.MaxUint64)},
		"slices":   {SliceKey(0), SliceKey(1), SliceKey(1 << 8), SliceKey(1 << 40), SliceKey(math.MaxUint64)},
		"chunks":   {chunk(1, 0), chunk(1, 1), chunk(1, 256), chunk(1, math.MaxUint32), chunk(2, 0), chunk(1<<33, 0)},
		"damage":   {DamageKey(0, 1, 1), DamageKey(1, 0, 0), DamageKey(1, 0, 1), DamageKey(1, 1, 0), DamageKey(2, 0, 0)},
		"rejects":  {RejectKey(1, 0), RejectKey(1, 1), RejectKey(1, 1<<40), RejectKey(2, 0)},
		"records":  {RecordKey(1, 1, 0), RecordKey(1, 1, 1), RecordKey(1, 2, 0), RecordKey(2, 0, 0)},
		"receipts": {ReceiptKey(1, [16]byte{9}, 9, 9), ReceiptBound(2), ReceiptKey(2, [16]byte{}, 1, 0), ReceiptKey(2, [16]byte{}, 1, 1), ReceiptKey(2, [16]byte{1}, 0, 0)},
	} {
		if !slices.IsSortedFunc(keys, bytes.Compare) {
			t.Errorf("%s do not sort: %x", name, keys)
		}
	}
	for _, slice := range []uint64{1, 255, 256, 1 << 40} {
		from, to := ChunkBounds(slice)
		for _, seq := range []uint32{0, 1, math.MaxUint32} {
			key := chunk(slice, seq)
			if bytes.Compare(from, key) > 0 || bytes.Compare(key, to) >= 0 {
				t.Errorf("chunk %d of slice %d lies outside of the slice's bounds", seq, slice)
			}
			if gotSlice, gotSeq := ParseChunkKey(key); gotSlice != slice || gotSeq != seq {
				t.Errorf("key of chunk %d of slice %d is read as chunk %d of slice %d", seq, slice, gotSeq, gotSlice)
			}
		}
		if next := chunk(slice+1, 0); bytes.Compare(next, to) < 0 {
			t.Errorf("the bounds of slice %d hold a chunk of the next", slice)
		}
	}
	segment, key, sink, part, ok := ParseReceiptKey(ReceiptKey(5, [16]byte{6}, 7, 8))
	if !ok || segment != 5 || key != [16]byte{6} || sink != 7 || part != 8 {
		t.Errorf("key of a receipt is read as %d %x %d %d, %v", segment, key, sink, part, ok)
	}
	if _, _, _, _, ok := ParseReceiptKey(ReceiptKey(5, [16]byte{6}, 7, 8)[1:]); ok {
		t.Error("a key that is too short is the key of a receipt")
	}
}

func TestIDs(t *testing.T) {
	for got, want := range map[string]string{
		FileID("a1b2c3d4e5f6", 1):             "a1b2c3d4e5f6-f000000000001",
		SliceID("a1b2c3d4e5f6", 1<<44, 0):     "a1b2c3d4e5f6-s100000000000",
		SliceID("a1b2c3d4e5f6", 0x1ff, 3):     "a1b2c3d4e5f6-s0000000001ff-r3",
		SliceID("a1b2c3d4e5f6", 1<<63, 1<<31): "a1b2c3d4e5f6-s8000000000000000-r2147483648",
		RejectID("a1b2c3d4e5f6", 1):           "a1b2c3d4e5f6-x000000000001",
	} {
		if got != want || len(got) > 64 {
			t.Errorf("id %s, want %s", got, want)
		}
	}
}

func TestIDsOfRejectsAreReadAsTheyAreWritten(t *testing.T) {
	for _, seq := range []uint64{1, 1 << 44, math.MaxUint64} {
		if instance, got, ok := ParseRejectID(RejectID("a1", seq)); instance != "a1" || got != seq || !ok {
			t.Errorf("the id of %d is read as %s, %d, %v", seq, instance, got, ok)
		}
		if sink, got, ok := ParseRejectKey(RejectKey(7, seq)[1:]); sink != 7 || got != seq || !ok {
			t.Errorf("the key of %d is read as %d, %d, %v", seq, sink, got, ok)
		}
	}
	for _, id := range []string{"", "a1", "a1-x", "a1-x1", "a1-x00000000000g", "a1-f000000000001", "a1-x+00000000001"} {
		if _, _, ok := ParseRejectID(id); ok {
			t.Errorf("%q is an id", id)
		}
	}
	if _, _, ok := ParseRejectKey(make([]byte, RejectKeySize-2)); ok {
		t.Error("a key that is too short is the key of a reject")
	}
}

func TestCounters(t *testing.T) {
	if file, slice, ok := ParseCounters(EncodeCounters(3, 1<<40)); !ok || file != 3 || slice != 1<<40 {
		t.Errorf("counters are read as %d and %d, %v", file, slice, ok)
	}
	if _, _, ok := ParseCounters(make([]byte, 15)); ok {
		t.Error("15 bytes are counters")
	}
}

// The bytes are drawn in the package comment. They are written out here, so that a change of the code alone is seen.
func TestChunkBytes(t *testing.T) {
	b := append(make([]byte, ChunkHeaderSize), "payload"...)
	h := ChunkHeader{
		Encoding: Gzip, Rows: 0x01020304, Raw: 0x05060708, Last: 0x11,
		Slice: Tally{Rows: 0x12, Raw: 0x13, Stored: 0x14, First: 0x15, Last: 0x99},
	}
	PutChunkHeader(b, h)
	want := "\x01\x01\x00\x00" + string(b[4:8]) + "\x04\x03\x02\x01" + "\x08\x07\x06\x05" +
		"\x12\x00\x00\x00\x00\x00\x00\x00" + "\x13\x00\x00\x00\x00\x00\x00\x00" + "\x14\x00\x00\x00\x00\x00\x00\x00" +
		"\x15\x00\x00\x00\x00\x00\x00\x00" + "\x11\x00\x00\x00\x00\x00\x00\x00" + "payload"
	if string(b) != want {
		t.Errorf("the bytes are\n%q, want\n%q", b, want)
	}
	if sum := binary.LittleEndian.Uint32(b[4:]); sum != 0xc213db53 {
		t.Errorf("the checksum is %08x", sum)
	}
	got, payload, err := ParseChunk(b)
	h.Slice.Last = h.Last
	if err != nil || got != h || string(payload) != "payload" {
		t.Errorf("it is read as %+v %q, %v", got, payload, err)
	}
	for i := range b {
		bad := bytes.Clone(b)
		bad[i] ^= 0x10
		if _, _, err := ParseChunk(bad); !errors.Is(err, ErrChunk) {
			t.Errorf("with a flipped bit in byte %d: %v", i, err)
		}
	}
	for n := range b {
		if _, _, err := ParseChunk(b[:n]); !errors.Is(err, ErrChunk) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
}

func TestReceiptBytes(t *testing.T) {
	b := append(make([]byte, ReceiptHeadSize), "data"...)
	PutReceiptTime(b, 0x0102030405)
	PutReceiptLife(b, 7)
	if want := "\x01\x05\x04\x03\x02\x01\x00\x00\x00\x07\x00\x00\x00data"; string(b) != want {
		t.Errorf("the bytes are %q, want %q", b, want)
	}
	at, life, data, err := ParseReceipt(b)
	if err != nil || at.UnixMilli() != 0x0102030405 || life != 7 || string(data) != "data" {
		t.Errorf("it is read as %s %d %q, %v", at, life, data, err)
	}
	b[0]++
	if _, _, _, err := ParseReceipt(b); !errors.Is(err, ErrReceipt) {
		t.Errorf("of a later version: %v", err)
	}
	if _, _, _, err := ParseReceipt(b[:ReceiptHeadSize-1]); !errors.Is(err, ErrReceipt) {
		t.Errorf("too short: %v", err)
	}
}

func TestTally(t *testing.T) {
	var sum Tally
	sum.Add(Tally{Raw: 5, First: 1}) // no rows add nothing
	sum.Add(Tally{Rows: 2, Raw: 20, Stored: 10, First: 100, Last: 200})
	sum.Add(Tally{Rows: 1, Raw: 10, Stored: 5, First: 50, Last: 60}) // the clock was set back
	if want := (Tally{Rows: 3, Raw: 30, Stored: 15, First: 50, Last: 200}); sum != want {
		t.Errorf("the sum is %+v, want %+v", sum, want)
	}
}

func TestExtent(t *testing.T) {
	e := Extent{Chunks: 10, Lost: []ChunkRange{{First: 0, Last: 1}, {First: 2, Last: 2}, {First: 8, Last: 9}}}
	var got []uint32
	for seq, more := e.Next(0); more; seq, more = e.Next(seq + 1) {
		got = append(got, seq)
	}
	if want := []uint32{3, 4, 5, 6, 7}; !slices.Equal(got, want) {
		t.Errorf("the chunks are %d, want %d", got, want)
	}
	if seq, more := (Extent{}).Next(1000); seq != 1000 || !more {
		t.Errorf("an open slice has no end: %d, %v", seq, more)
	}
}

// Every record is written out with all members, so that a renamed or reordered one is seen.
func TestRecordBytes(t *testing.T) {
	at := time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC)
	def := &Definition{
		Table: Table{ID: "in.c-a.t", Columns: datatype.UntypedColumns("id", "v")}, Encoding: Zstd,
		Upload: trigger.Conditions{Interval: time.Second, Size: 1, Count: 2}, Import: trigger.Conditions{Interval: time.Minute},
	}
	retry := Retry{Attempt: 1, Reason: "away", Permanent: true, FirstFailed: at, LastFailed: at, After: at}
	const defText = `{"table":{"ID":"in.c-a.t","Columns":["id","v"]},"encoding":2,"upload":{"Interval":1000000000,"Size":1,"Count":2},` +
		`"import":{"Interval":60000000000,"Size":0,"Count":0}}`
	const when = `"2025-01-02T03:04:05Z"`
	const retryText = `{"attempt":1,"reason":"away","permanent":true,"firstFailed":` + when + `,"lastFailed":` + when + `,"after":` + when + `}`
	const tallyText = `"rows":1,"raw":2,"stored":3,"first":4,"last":5`
	tally := Tally{1, 2, 3, 4, 5}
	check(t, Sink{}, `{"id":"","sealed":{"rows":0,"bytes":0},"imported":{"rows":0,"bytes":0},"expired":{"rows":0,"bytes":0}}`)
	check(t, Sink{
		"a", def, true, 1, true,
		Count{1, 2},
		Count{3, 4},
		Count{5, 6},
		Count{7, 8},
		Count{9, 10},
		Count{17, 18},
		Count{19, 20},
		11, 12, 13, 14, []byte("m"),
		[]Retired{{datatype.Column{Name: "n", Type: datatype.Int64}, 15}, {datatype.Column{Name: "o"}, 16}},
		"r",
		Quarantine{true, 1, 2, 3, true, true, Count{4, 5}, Count{6, 7}, Count{8, 9}, Count{10, 11}, Count{12, 13}},
		map[string][]byte{"p": []byte("at"), "o": {}},
		21,
	},
		`{"id":"a","def":`+defText+`,"dropped":true,"life":1,"keysEnd":true,"sealed":{"rows":1,"bytes":2},"imported":{"rows":3,"bytes":4},`+
			`"expired":{"rows":5,"bytes":6},"damaged":{"rows":7,"bytes":8},"discarded":{"rows":9,"bytes":10},"poison":{"rows":17,"bytes":18},"moved":{"rows":19,"bytes":20},`+
			`"firstAt":11,"lastAt":12,"storedImported":13,"version":14,"mapping":"bQ==",`+
			`"retired":[{"column":{"name":"n","type":"int64"},"last":15},{"column":"o","last":16}],"refused":"r",`+
			`"quarantine":{"on":true,"maxBytes":1,"maxRecords":2,"maxAge":3,"dropOldest":true,"holdFiles":true,"added":{"rows":4,"bytes":5},`+
			`"replayed":{"rows":6,"bytes":7},"discarded":{"rows":8,"bytes":9},"expired":{"rows":10,"bytes":11},"lost":{"rows":12,"bytes":13}},`+
			`"positions":{"o":"","p":"YXQ="},"revision":21}`)
	words := RefusedRow{5, "c", "22003", "out of range"}
	const wordsText = `"row":5,"column":"c","reason":"22003","message":"out of range"`
	check(t, Reject{"i-x000000000001", "a", 1, 2, 2, 3, 4, []byte("i"), &Poison{"f", words, datatype.UntypedColumns("c"), "0a1b2c3d.4"}, true, &Arrival{"a", "s", 3}},
		`{"id":"i-x000000000001","sink":"a","at":1,"revision":2,"edit":2,"came":3,"edited":4,"info":"aQ==",`+
			`"poison":{"file":"f",`+wordsText+`,"columns":["c"],"label":"0a1b2c3d.4"},"moved":true,"from":{"instance":"a","session":"s","epoch":3}}`)
	check(t, File{Split: &Split{[]Part{{"i", 1, 9, Refuse(words), true, []RefusedRow{{Row: -1}}, 7, 2, true}}, 2, 5, 3, 6, 4, true, &words}},
		`{"sink":0,"state":"","def":null,"opened":"0001-01-01T00:00:00Z","split":{"parts":[{"id":"i","from":1,"to":9,"skip":{"words":[{"column":"c","reason":"22003","message":"out of range"}],"runs":"DA=="},`+
			`"imported":true,"refused":[{"row":-1}],"rows":7,"gone":2,"givenUp":true}],"imports":2,"took":5,"kept":3,"erased":6,"most":4,"last":true,"rest":{`+wordsText+`}}}`)
	check(t, File{Retry: Retry{Attempt: 1, Refused: &words}},
		`{"sink":0,"state":"","def":null,"opened":"0001-01-01T00:00:00Z","retry":{"attempt":1,"refused":{`+wordsText+`}}}`)
	check(t, Reject{ID: "i", SinkID: "a"}, `{"id":"i","sink":"a","at":0,"came":0}`)
	grown := &Definition{Table: Table{ID: "t", Extend: true, Columns: []datatype.Column{
		{Name: "id"}, {Name: "n", Type: datatype.Decimal(5, 2)}, {Name: "at", Type: datatype.Timestamp, Required: true},
	}}}
	const conditions = `{"Interval":0,"Size":0,"Count":0}`
	check(t, File{Def: grown}, `{"sink":0,"state":"","def":{"table":{"ID":"t","Columns":["id",{"name":"n","type":"decimal(5,2)"},`+
		`{"name":"at","type":"timestamp","required":true}],"Extend":true},"encoding":0,"upload":`+conditions+`,"import":`+conditions+
		`},"opened":"0001-01-01T00:00:00Z"}`)
	check(t, File{}, `{"sink":0,"state":"","def":null,"opened":"0001-01-01T00:00:00Z"}`)
	check(t, File{"i", 3, true, true, 1, "a", true, true, FileExpired, def, at, at, at, at, "size", retry, []byte("p"), nil, true, at, tally},
		`{"instance":"i","number":3,"leaving":true,"copied":true,"sink":1,"sinkID":"a","salvaged":true,"forgotten":true,"state":"expired","def":`+defText+
			`,"opened":`+when+`,"closed":`+when+`,"sealed":`+when+`,"finished":`+when+`,"reason":"size","retry":`+retryText+
			`,"progress":"cA==","rowsRefused":true,"patient":`+when+`,`+tallyText+`}`)
	check(t, Slice{}, `{"file":0,"state":"","opened":"0001-01-01T00:00:00Z"}`)
	check(t, Slice{"i", 4, 1, SliceUploading, at, at, "count", retry, tally, true, 6, Count{7, 8}, []ChunkRange{{1, 2, Count{3, 4}}}, 9, Checksum{10, 11}, at, true},
		`{"instance":"i","number":4,"file":1,"state":"uploading","opened":`+when+`,"closed":`+when+`,"reason":"count","retry":`+retryText+`,`+tallyText+
			`,"salvaged":true,"chunks":6,"lost":{"rows":7,"bytes":8},"lostChunks":[{"first":1,"last":2,"rows":3,"bytes":4}],`+
			`"revision":9,"object":{"crc":10,"size":11},"unreadable":`+when+`,"uncounted":true}`)
	check(t, ArrivingFile{Arrival{"a", "s", 3}, File{Instance: "i", Number: 5}, []Slice{{Instance: "i", Number: 6}}},
		`{"from":{"instance":"a","session":"s","epoch":3},"file":{"instance":"i","number":5,"sink":0,"state":"","def":null,"opened":"0001-01-01T00:00:00Z"},`+
			`"slices":[{"instance":"i","number":6,"file":0,"state":"","opened":"0001-01-01T00:00:00Z"}]}`)
	check(t, Damage{"id", "a", "f", "s", 1, 2, 3, 4, at, "bits", true, "damaged-1", []byte("p")},
		`{"sink":"a","file":"f","slice":"s","firstChunk":1,"lastChunk":2,"rows":3,"bytes":4,"at":`+when+
			`,"reason":"bits","uncounted":true,"store":"damaged-1","data":"cA=="}`)
}

func check[R Record](t *testing.T, r R, want string) {
	t.Helper()
	if got := string(Encode(&r)); got != want {
		t.Errorf("%T is\n%s, want\n%s", r, got, want)
	}
	var got R
	if err := Decode([]byte(want), &got); err != nil {
		t.Fatal(err)
	}
	if d, ok := any(&r).(*Damage); ok {
		d.ID = "" // it is the key
	}
	if !reflect.DeepEqual(got, r) {
		t.Errorf("%T is read as\n%+v, want\n%+v", r, got, r)
	}
	// A later release may add members.
	if err := Decode([]byte(strings.Replace(want, "{", `{"later":{},`, 1)), &got); err != nil {
		t.Errorf("%T with an unknown member: got %v, want no error", r, err)
	}
}

func TestDefinitionsAreComparedByValue(t *testing.T) {
	def := func(change func(*Definition)) *Definition {
		d := &Definition{Table: Table{ID: "t", Columns: datatype.UntypedColumns("a", "b")}, Encoding: Gzip, Upload: trigger.Conditions{Count: 1}}
		change(d)
		return d
	}
	base := def(func(*Definition) {})
	if !base.Equal(def(func(*Definition) {})) || base.Equal(nil) || (*Definition)(nil).Equal(base) || !(*Definition)(nil).Equal(nil) {
		t.Error("equal definitions differ, or one equals none")
	}
	for name, change := range map[string]func(*Definition){
		"table":    func(d *Definition) { d.Table.ID = "u" },
		"columns":  func(d *Definition) { d.Table.Columns = datatype.UntypedColumns("b", "a") },
		"types":    func(d *Definition) { d.Table.Columns[1].Type = datatype.Int64 },
		"extend":   func(d *Definition) { d.Table.Extend = true },
		"encoding": func(d *Definition) { d.Encoding = None },
		"upload":   func(d *Definition) { d.Upload.Count++ },
		"import":   func(d *Definition) { d.Import.Size++ },
	} {
		if base.Equal(def(change)) {
			t.Errorf("another %s makes no difference", name)
		}
	}
}

// No input panics, and an accepted input is read again the same.
func FuzzParseChunk(tf *testing.F) {
	f := fuzztest.New(tf)
	b := append(make([]byte, ChunkHeaderSize), "\"1\"\n"...)
	PutChunkHeader(b, ChunkHeader{Rows: 1, Raw: 4, Last: 9, Slice: Tally{Rows: 1, Raw: 4, Stored: 4, First: 9}})
	f.Add(b)
	f.Add(b[:ChunkHeaderSize])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, payload, err := ParseChunk(b)
		if err != nil {
			if !errors.Is(err, ErrChunk) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		again := append(make([]byte, ChunkHeaderSize), payload...)
		PutChunkHeader(again, h)
		if got, _, err := ParseChunk(again); err != nil || got != h {
			t.Fatalf("%+v is read again as %+v, %v", h, got, err)
		}
	})
}

func FuzzParseReceipt(tf *testing.F) {
	f := fuzztest.New(tf)
	b := append(make([]byte, ReceiptHeadSize), "data"...)
	PutReceiptTime(b, 1)
	PutReceiptLife(b, 2)
	f.Add(b, ReceiptKey(1, [16]byte{2}, 3, 4))
	f.Fuzz(func(t *testing.T, b, key []byte) {
		if at, life, data, err := ParseReceipt(b); err == nil && !at.IsZero() {
			again := append(make([]byte, ReceiptHeadSize), data...)
			PutReceiptTime(again, at.UnixMilli())
			PutReceiptLife(again, life)
			if !bytes.Equal(b, again) {
				t.Fatalf("%x is written again as %x", b, again)
			}
		}
		if segment, k, sink, part, ok := ParseReceiptKey(key); ok {
			if again := ReceiptKey(segment, k, sink, part); !bytes.Equal(again[1:], key[1:]) {
				t.Fatalf("key %x is written again as %x", key, again)
			}
		}
	})
}

func FuzzDecodeRecords(tf *testing.F) {
	f := fuzztest.New(tf)
	for _, seed := range []string{
		`{"id":"a","def":{"table":{"ID":"t","Columns":["c"]},"encoding":1},"sealed":{"rows":1,"bytes":2}}`,
		`{"sink":1,"state":"importing","def":null,"opened":"2025-01-02T03:04:05Z","retry":{"attempt":1},"rows":5}`,
		`{"file":1,"state":"uploading","opened":"2025-01-02T03:04:05Z","lostChunks":[{"first":1,"last":2,"rows":3,"bytes":4}],"revision":1}`,
		`{"sink":"a","firstChunk":-1,"lastChunk":-1,"at":"2025-01-02T03:04:05Z","data":"cA=="}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		again[Sink](t, b)
		again[File](t, b)
		again[Slice](t, b)
		again[Damage](t, b)
	})
}

func again[R Record](t *testing.T, b []byte) {
	var r, same R
	if Decode(b, &r) != nil {
		return
	}
	text := Encode(&r)
	if err := Decode(text, &same); err != nil {
		t.Fatalf("%s is written as %s, which cannot be read: %v", b, text, err)
	}
	if got := Encode(&same); !bytes.Equal(got, text) {
		t.Fatalf("%s is written again as %s", text, got)
	}
}
