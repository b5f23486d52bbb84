package mapping

import (
	"bufio"
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// sameOrFail compiles a template on both engines and runs it over one record.
func sameOrFail(t *testing.T, content string, r *Record) {
	t.Helper()
	newPair(content).sameOrFail(t, r)
}

// pair is a template compiled by us and, on first use, by the reference implementation.
type pair struct {
	content     string
	ours        *Mapper
	err         error
	reference   func() (*oracle, error)
	noReference bool // refused for a limit that the reference does not have
}

func newPair(content string) *pair {
	p := &pair{content: content, reference: sync.OnceValues(func() (*oracle, error) { return newOracle(content) })}
	p.ours, p.err = compileTemplate(content, Options{Compat: true})
	p.noReference = p.err != nil && (strings.Contains(p.err.Error(), "a template has 1 to") || strings.Contains(p.err.Error(), "brackets are nested deeper"))
	return p
}

// sameOrFail demands the same bytes of both engines, or two failures. Ours goes first because what breaks our bounds must not reach
// the reference, which has none and cannot be stopped.
func (p *pair) sameOrFail(t *testing.T, r *Record) {
	t.Helper()
	if p.noReference {
		return
	}
	content, err := p.content, p.err
	var got []byte
	var gotErr error
	if err == nil {
		got, gotErr = p.ours.AppendCell(nil, 0, r)
		var fail *Error
		if errors.As(gotErr, &fail) && (fail.Reason == BudgetExceeded || strings.Contains(fail.Error(), "internal error")) {
			if fail.Reason != BudgetExceeded {
				t.Fatalf("got %s\n%v\nwant fail.Reason == %v", content, gotErr, BudgetExceeded)
			}
			return
		}
	}
	ref, refErr := p.reference()
	switch {
	case refErr != nil && err != nil:
		return
	case refErr != nil:
		t.Fatalf("%s\nthe reference refuses it (%v), we do not", content, refErr)
	case err != nil:
		// We check more before the program runs. What we refuse must fail there when it is reached. Whether it is
		// reached is not known, so only programs without branches and unused parts are held to it.
		if strings.Contains(content, "range") || strings.Contains(content, "repeat") || strings.Contains(content, "makeArray") {
			return
		}
		want, wantErr := ref.eval(r)
		for _, branch := range []string{"if", "local", ":", "&&", "||", "function", "Body", "Header", "for", "null", "[", "std"} {
			if strings.Contains(content, branch) {
				return
			}
		}
		if wantErr == nil {
			t.Fatalf("%s\ngot a refusal: %v\nwant %s, as the reference", content, err, want)
		}
		return
	}
	want, wantErr := ref.eval(r)
	switch {
	case wantErr != nil && strings.Contains(wantErr.Error(), "max stack frames exceeded"):
		return
	case wantErr != nil && strings.Contains(wantErr.Error(), "(CRASH)"):
		return // a defect of the reference, such as std.substr of a start beyond 2^63
	case wantErr != nil && strings.Contains(wantErr.Error(), "strconv.ParseFloat"):
		return // it converts all numbers of a value at once, we each when it is used
	case (wantErr != nil) != (gotErr != nil):
		t.Fatalf("%s\nbody: %s\nwant as the reference %s %v\ngot                   %s %v", content, r.Body, want, wantErr, got, gotErr)
	case wantErr == nil && want != string(got):
		t.Fatalf("%s\nbody: %s\nwant as the reference %s\ngot                   %s", content, r.Body, want, got)
	}
}

const sampleBody = `{"a":{"b":"text","n":[1,2.5,-3e2,9007199254740993]},"u":"\u00e9\ud83d\ude00","e":"q\"\\\n","t":true,"f":false,` +
	`"z":null,"o":{"y":1,"x":{"k":"v"}},"arr":[3,1,2],"objs":[{"id":1,"name":"ann"},{"id":2,"name":"bob","tags":["p","q"]}],` +
	`"a.b":"dotted","":"empty","dup":1,"dup":2,"big":123456789012345678901234567890,"frac":0.1,"s":"10"}`

func sampleRecord() *Record {
	return &Record{
		Body: []byte(sampleBody), Format: FormatJSON, ClientIP: netip.MustParseAddr("203.0.113.7"),
		Received: time.Date(2024, 2, 29, 13, 4, 5, 67_000_000, time.UTC),
		Header:   http.Header{"Content-Type": {"application/json"}, "X-Env": {"prod"}, "User-Agent": {"curl/8 <x>"}},
	}
}

// corpus reads the hand-written cases, one template a line, or several lines between lines of "---".
func corpus(t testing.TB) []string {
	t.Helper()
	f, err := os.Open("testdata/templates.txt")
	must(t, err)
	defer f.Close()
	var cases []string
	var block []string
	in := false
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		line := sc.Text()
		switch {
		case line == "---" && in:
			cases, block, in = append(cases, strings.Join(block, "\n")), nil, false
		case line == "---":
			in = true
		case in:
			block = append(block, line)
		case line != "" && !strings.HasPrefix(line, "#"):
			cases = append(cases, line)
		}
	}
	if err := sc.Err(); err != nil || in {
		t.Fatal("corpus: unfinished block", err)
	}
	return cases
}

// skipUnderRace skips a test in which nothing runs at the same time, so that the race detector finds nothing.
func skipUnderRace(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("nothing runs at the same time")
	}
}

func TestDifferentialCorpus(t *testing.T) {
	skipUnderRace(t)
	cases := corpus(t)
	if len(cases) < 200 {
		t.Errorf("got %d cases, want at least 200", len(cases))
	}
	for _, c := range cases {
		t.Run("", func(t *testing.T) { sameOrFail(t, c, sampleRecord()) })
	}
}

// Without Compat a template gives the same JSON value as with it. The difference is how numbers are written and, in what
// is passed on unchanged, the order of keys and the escapes. Where a number becomes text, its digits show.
func TestDefaultModeGivesTheSameValues(t *testing.T) {
	differ := []string{
		`Body('dup')`, // of which another member counts
		`Body('a.n[3]') + ''`, `'' + Body('a.n')`, `std.md5(std.toString(Body('a.n')))`, `'%(b)s/%(n)s' % Body('a')`,
	}
	value := func(content string, compat bool) (string, error) {
		p, err := compileTemplate(content, Options{Compat: compat})
		if err != nil {
			return "", err
		}
		out, err := p.AppendCell(nil, 0, sampleRecord())
		if err != nil {
			return "", err
		}
		var v any
		if err := json.Unmarshal(out, &v); err != nil {
			t.Errorf("%s: got %s: %v, want no error", content, out, err)
		}
		norm, err := json.Marshal(v)
		// An object that is passed on has all its members, and encoding/json takes the last of the same name.
		return strings.Replace(string(norm), `"dup":2`, `"dup":1`, 1), err
	}
cases:
	for _, content := range corpus(t) {
		a, errA := value(content, true)
		b, errB := value(content, false)
		if a == b && reasonOf(errA) == reasonOf(errB) {
			continue
		}
		for _, d := range differ {
			if strings.Contains(content, d) {
				continue cases
			}
		}
		t.Errorf("%s\ngot with Compat:    %s %v\ngot without Compat: %s %v\nwant the same", content, a, errA, b, errB)
	}
}
