package main

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
)

// The sinks, by their index.
const (
	typed = iota
	untyped
	sinks
)

var sinkIDs = [sinks]string{"typed", "untyped"}

func tableID(sink int) string { return "in.c-week." + sinkIDs[sink] }

// Events have numbers, and the number makes the content, so that a row can be checked by its id alone.
type events struct {
	seed        uint64
	bad, poison float64
}

// kind is the fault of an event.
type kind int

const (
	good      kind = iota
	badAmount      // the typed sink cannot map it
	noRef          // the untyped sink cannot map it
	bigLevel       // breaks a cast or a CHECK of the typed table
	minus          // breaks a CHECK of the typed table
	nul            // cannot be stored in the untyped table
)

// sink is the sink that does not take an event of this kind.
func (k kind) sink() int {
	switch k {
	case good:
		return -1
	case noRef, nul:
		return untyped
	}
	return typed
}

// field is the member of an event that is wrong.
func (k kind) field() string {
	return [...]string{good: "", badAmount: "amount", noRef: "ref", bigLevel: "level", minus: "amount", nul: "note"}[k]
}

// value is a member of an event and the cell that it becomes. No cell is NULL.
type value struct{ name, json, cell string }

func (e events) rng(n uint64) *rand.Rand { return rand.New(rand.NewPCG(e.seed, n)) }

func (e events) kind(n uint64) kind {
	rng := e.rng(n)
	switch at := rng.Float64(); {
	case at < e.bad:
		return badAmount + kind(rng.IntN(2))
	case at < e.bad+e.poison:
		return bigLevel + kind(rng.IntN(3))
	}
	return good
}

// typedFields are the columns of the typed sink in addition to the id.
var typedFields = []struct {
	name string
	typ  datatype.Type
}{
	{"n", datatype.Int64},
	{"ok", datatype.Bool},
	{"ratio", datatype.Float64},
	{"amount", datatype.Decimal(12, 2)},
	{"at", datatype.Timestamp},
	{"day", datatype.Date},
	{"uid", datatype.UUID},
	{"doc", datatype.JSON},
	{"raw", datatype.Bytes},
	{"text", datatype.String},
	{"level", datatype.Int64},
}

var texts = []string{"", "null", "a,b", "two\nlines", `"quoted"`, `\.`, `back\slash`, "naïve – 東京 🚃", " spaces ", "\t"}

// values are the members of an event as they should be, first of typedFields, then of the untyped sink, then of the columns that tables get later.
func (e events) values(n uint64) []value {
	rng := e.rng(n)
	rng.Uint64() // kind is independent
	rng.Uint64()
	list := make([]value, 0, len(typedFields)+2+maxDays)
	null := rng.Uint64() & rng.Uint64() & rng.Uint64() // each bit with a probability of an eighth
	add := func(json, cell string) {
		name := typedFields[len(list)].name
		if null&(1<<len(list)) != 0 {
			json, cell = "null", ""
		}
		list = append(list, value{name, json, cell})
	}
	number := strconv.FormatInt(int64(rng.Uint64()), 10)
	add(number, number)
	truth := strconv.FormatBool(rng.IntN(2) == 0)
	add(truth, truth)
	ratio := strconv.FormatFloat(float64(rng.IntN(1<<20)-1<<19)/8, 'f', -1, 64)
	add(ratio, ratio)
	cents := rng.Int64N(1e12)
	amount := fmt.Sprintf("%d.%02d", cents/100, cents%100)
	add(amount, amount)
	at := time.Unix(1_700_000_000+rng.Int64N(100_000_000), rng.Int64N(1e6)*1000)
	sent := at.In(time.FixedZone("", (rng.IntN(25)-12)*1800))
	add(sent.Format(`"2006-01-02T15:04:05.000000Z07:00"`), at.UTC().Format("2006-01-02T15:04:05.000000Z"))
	day := at.UTC().Format("2006-01-02")
	add(quoted(day), day)
	uid := make([]byte, 16)
	raw := make([]byte, rng.IntN(40))
	for _, b := range [][]byte{uid, raw} {
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
	}
	uid[6] &= 0x7f // MariaDB refuses some values of the versions 8 to f
	h := hex.EncodeToString(uid)
	add(quoted(strings.ToUpper(h)), h[:8]+"-"+h[8:12]+"-"+h[12:16]+"-"+h[16:20]+"-"+h[20:])
	doc := fmt.Sprintf(`{"b":[%d,null],"a":%s}`, rng.IntN(1000), quoted(texts[rng.IntN(len(texts))]))
	add(strings.Replace(doc, `],"a"`, `], "a"`, 1), doc)
	add(quoted(base64.StdEncoding.EncodeToString(raw)), base64.StdEncoding.EncodeToString(raw))
	text := texts[rng.IntN(len(texts))]
	add(quoted(text), text)
	level := strconv.Itoa(rng.IntN(1000))
	add(level, level)
	for _, name := range []string{"note", "ref"} {
		text := texts[rng.IntN(len(texts))] + number
		list = append(list, value{name, quoted(text), text})
	}
	for day := range maxDays {
		x := strconv.FormatUint(n*uint64(day+3)%1_000_003, 10)
		list = append(list, value{grown(day), x, x})
	}
	return list
}

// isNull reports whether the cell of a member is NULL.
func (v value) isNull() bool { return v.json == "null" }

// grown is the column that the tables get on a day.
func grown(day int) string { return "x" + strconv.Itoa(day+1) }

func quoted(text string) string {
	b, _ := json.Marshal(text) // texts always work
	return string(b)
}

func eventID(n uint64, attempt int) string { return fmt.Sprintf("%08d-%d", n, attempt) }

// parseID is the inverse of eventID.
func parseID(id string) (n uint64, attempt int, err error) {
	number, tried, _ := strings.Cut(id, "-")
	if n, err = strconv.ParseUint(number, 10, 32); err == nil {
		attempt, err = strconv.Atoi(tried)
	}
	if err != nil || eventID(n, attempt) != id {
		return 0, 0, fmt.Errorf("%q is no id of an event", id)
	}
	return n, attempt, nil
}

// body is the event as a client sends it.
func (e events) body(n uint64, attempt int) []byte { return e.bodyOf(n, attempt, e.kind(n)) }

// bodyOf returns the event with the fault of a kind.
func (e events) bodyOf(n uint64, attempt int, k kind) []byte {
	b := fmt.Appendf(nil, `{"id":%q`, eventID(n, attempt))
	for _, v := range e.values(n) {
		if v.name == k.field() {
			switch k {
			case badAmount:
				v.json = `"12,50"`
			case noRef:
				continue
			case bigLevel:
				v.json = "40000"
			case minus:
				v.json = "-1"
			case nul:
				v.json = `"a\u0000b"`
			}
		}
		b = fmt.Appendf(b, `,%q:%s`, v.name, v.json)
	}
	return append(b, '}')
}

// repair is what an operator replaces the body of a quarantined event with. For a row that the target has refused, it is the cell alone.
func (e events) repair(n uint64, attempt int, refused bool) ([]byte, error) {
	if !refused {
		return e.bodyOf(n, attempt, good), nil
	}
	k := e.kind(n)
	for _, v := range e.values(n) {
		if v.name == k.field() {
			if v.isNull() {
				return fmt.Appendf(nil, `{%q:null}`, v.name), nil
			}
			return fmt.Appendf(nil, `{%q:%s}`, v.name, quoted(v.cell)), nil
		}
	}
	return nil, fmt.Errorf("event %d is in order, and the target has refused its row", n)
}

// columns is the mapping of a sink whose table has grown on so many days.
func columns(sink, days int) mapping.Columns {
	var list mapping.Columns
	if sink == typed {
		list = append(list, mapping.Path("id", "id", mapping.DataType(datatype.String), mapping.Required()))
		for _, f := range typedFields {
			list = append(list, mapping.Path(f.name, f.name, mapping.DataType(f.typ)))
		}
	} else {
		for _, name := range []string{"id", "note", "ref"} {
			list = append(list, mapping.Path(name, name, mapping.RawString()))
		}
	}
	for day := range days {
		var options []mapping.ColumnOption
		if sink == typed {
			options = append(options, mapping.DataType(datatype.Int64))
		}
		list = append(list, mapping.Path(grown(day), grown(day), options...))
	}
	return list
}
