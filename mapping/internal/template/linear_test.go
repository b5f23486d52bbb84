//go:build !forebay_notemplates

package template

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/casetest"
)

// linear are programs that go through a text or list once, or ask for one part of it after the other. Their cost grows as
// the body does, so none needs a special budget for ordinary bodies.
var linear = map[string]string{
	"findSubstr":               `std.length(std.findSubstr('security', BodyStr()))`,
	"characters by index":      `local s = BodyStr(); std.length(std.filter(function(c) c == ',', [s[i] for i in std.range(0, std.length(s) - 1)]))`,
	"length in a loop":         `local s = BodyStr(), f(i, n) = if i >= std.length(s) then n else f(i + 1, if s[i] == ',' then n + 1 else n) tailstrict; f(0, 0)`,
	"body text in a loop":      `std.length([BodyStr()[i] for i in std.range(0, std.length(BodyStr()) - 1)])`,
	"header text in a loop":    `std.length([HeaderStr()[0] + i for i in std.range(0, std.length(BodyStr()) - 1)])`,
	"windows":                  `local s = BodyStr(); std.length(std.filter(function(i) std.substr(s, i, 4) == 'éx,"', std.range(0, std.length(s) - 4)))`,
	"slices of a text":         `local s = BodyStr(); std.length([s[i:i + 4] for i in std.range(0, std.length(s) - 1)])`,
	"slice of a list":          `std.length(std.stringChars(BodyStr())[1:])`,
	"every other":              `std.length(BodyStr()[::2])`,
	"mapWithIndex":             `std.length(std.join('', std.mapWithIndex(function(i, c) if i % 2 == 0 then c else '', BodyStr())))`,
	"map of a text":            `std.length(std.join('', std.map(std.asciiUpper, BodyStr())))`,
	"flatMap of a text":        `std.length(std.flatMap(function(c) if c == '"' then '\\"' else c, BodyStr()))`,
	"escapeStringXML":          `std.length(std.escapeStringXML(BodyStr()))`,
	"escapeStringBash":         `std.length(std.escapeStringBash(BodyStr()))`,
	"escapeStringDollars":      `std.length(std.escapeStringDollars(BodyStr()))`,
	"escapeStringPython":       `std.length(std.escapeStringPython(BodyStr()))`,
	"text by folding":          `std.length(std.foldl(function(a, c) a + std.asciiUpper(c), std.stringChars(BodyStr()), ''))`,
	"text by folding two":      `std.length(std.foldl(function(a, c) a + c + std.asciiUpper(c), BodyStr(), ''))`,
	"list by folding":          `std.length(std.foldl(function(a, c) a + [c], BodyStr(), []))`,
	"flattenArrays":            `std.length(std.flattenArrays([[c, c] for c in std.stringChars(BodyStr())]))`,
	"uniq":                     `std.length(std.uniq(std.stringChars(BodyStr())))`,
	"setUnion":                 `std.length(std.setUnion([i for i in std.range(0, std.length(BodyStr()))], []))`,
	"members by name":          `local o = Body('o'); std.length([o[k] for k in std.objectFields(o)])`,
	"objectValues":             `std.length(std.objectValues(Body('o')))`,
	"mapWithKey":               `std.length(std.mapWithKey(function(k, v) v, Body('o')))`,
	"objectHas":                `local o = Body('o'); std.length(std.filter(function(k) std.objectHas(o, k), std.objectFields(o)))`,
	"mergePatch":               `std.length(std.mergePatch(Body('o'), { a: null }))`,
	"elements by index":        `local a = Body('a'), f(i, n) = if i >= Body('n') then n else f(i + 1, n + a[i]) tailstrict; f(0, 0)`,
	"prune":                    `std.length(std.prune(Body('o')))`,
	"prune of what is nested":  `local f(x, n) = if n == 0 then x else f([x, null], n - 1); std.length(std.toString(std.prune([f(c, 40) for c in std.objectFields(Body('o'))])))`,
	"stripChars":               `std.length(std.stripChars('   ' + BodyStr(), ' x{}é"'))`,
	"trim":                     `std.length(std.trim(BodyStr()))`,
	"split and join":           `std.length(std.join(';', std.split(BodyStr(), ',')))`,
	"strReplace":               `std.length(std.strReplace(BodyStr(), 'é', 'e'))`,
	"sum by folding a text":    `std.foldl(function(a, c) a + std.codepoint(c), BodyStr(), 0)`,
	"equalsIgnoreCase":         `std.equalsIgnoreCase(BodyStr(), std.asciiUpper(BodyStr()))`,
	"manifestJsonEx":           `std.length(std.manifestJsonEx(Body('o'), '  '))`,
	"parseJson":                `std.length(std.parseJson(BodyStr()).o)`,
	"deepJoin":                 `std.length(std.deepJoin([BodyStr(), [std.stringChars(BodyStr())]]))`,
	"comparison":               `BodyStr() < BodyStr() + 'x'`,
	"paths with an index":      `std.length([Body('a[' + i + ']') for i in std.range(0, 9)])`,
	"reversed by folding":      `std.length(std.foldr(function(c, a) a + c, BodyStr(), ''))`,
	"lines":                    `std.length(std.lines(std.split(BodyStr(), ',')))`,
	"base64 and back":          `std.length(std.base64Decode(std.base64(std.strReplace(BodyStr(), 'é', 'e'))))`,
	"member":                   `std.member(BodyStr(), '\u0001')`,
	"objects by comprehension": `std.length({ [k]: 1 for k in std.objectFields(Body('o')) })`,
}

// ofText are the programs among them that a body of the largest size does not stop either, because they make no list with an
// element for each character.
var ofText = []string{
	"findSubstr", "flatMap of a text", "escapeStringXML", "escapeStringBash", "escapeStringDollars", "escapeStringPython",
	"stripChars", "trim", "strReplace", "equalsIgnoreCase", "comparison", "member",
}

// ofCharacters are programs that make or go through one element for each character. A body of the largest size does not stop
// them either.
var ofCharacters = map[string]string{
	"range":                  `local s = BodyStr(); std.length(std.join('', [s[i] for i in std.range(0, std.length(s) - 1)]))`,
	"range and filter":       `local s = BodyStr(); std.length(std.filter(function(c) c == ',', [s[i] for i in std.range(0, std.length(s) - 1)]))`,
	"range with a condition": `local s = BodyStr(); std.length(std.join('', [s[i] for i in std.range(0, std.length(s) - 1) if s[i] != ' ']))`,
	"range of BodyStr":       `std.length(std.join('', [BodyStr()[i] for i in std.range(0, std.length(BodyStr()) - 1)]))`,
	"mapWithIndex":           `std.length(std.join('', std.mapWithIndex(function(i, c) if i % 2 == 0 then c else '', BodyStr())))`,
	"mapWithIndex of a list": `std.length(std.join('', std.mapWithIndex(function(i, c) if i % 2 == 0 then c else '', std.stringChars(BodyStr()))))`,
	"makeArray":              `local s = BodyStr(); std.length(std.join('', std.makeArray(std.length(s), function(i) s[i])))`,
	"map":                    `std.length(std.join('', std.map(std.asciiUpper, BodyStr())))`,
	"map of a list":          `std.length(std.join('', std.map(function(c) if c == ',' then ';' else c, std.stringChars(BodyStr()))))`,
	"flatMap":                `std.length(std.flatMap(function(c) if c == '"' then '\\"' else c, BodyStr()))`,
	"stringChars":            `std.length(std.stringChars(BodyStr()))`,
	"join of stringChars":    `std.length(std.join('', std.stringChars(BodyStr())))`,
	"join with a separator":  `std.length(std.join(',', std.stringChars(BodyStr())))`,
	"comprehension":          `std.length(std.join('', [if c == ',' then ';' else c for c in std.stringChars(BodyStr())]))`,
	"foldl":                  `std.foldl(function(n, c) if c == ',' then n + 1 else n, BodyStr(), 0)`,
}

// linearBody makes a body of about size bytes, with a text that is not ASCII, a list and an object.
func linearBody(size int) *jsonEvent {
	n := size / 40
	var b strings.Builder
	fmt.Fprintf(&b, `{"n":%d,"a":[0`, n)
	for range n - 1 {
		b.WriteString(",1")
	}
	b.WriteString(`],"o":{"k":0`)
	for i := range n {
		fmt.Fprintf(&b, `,"k%d":1`, i)
	}
	b.WriteString(`},"t":"`)
	for b.Len() < size-20 {
		b.WriteString("security, <é> & ")
	}
	b.WriteString(`"}`)
	return &jsonEvent{body: b.String()}
}

// spent returns the steps and memory that a program needs.
func spent(t *testing.T, content string, ev Event) (steps, memory int) {
	t.Helper()
	p, err := compile(content, Options{Budget: Budget{Steps: 20_000_000, Memory: 256 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	m := new(machine)
	m.reset(ev, false, p.opts.Budget.withDefaults(0))
	defer func() {
		if e := recover(); e != nil {
			t.Fatalf("got %v, want e == nil", asError(e).Err)
		}
	}()
	writer := writer{m: m, limit: 1 << 30}
	writer.value(nil, p.run(m, nil))
	return int((int64(p.opts.Budget.Steps)*ticksAStep - m.left) / ticksAStep), p.opts.Budget.Memory - m.memory
}

func TestLinearProgramsCostLinearly(t *testing.T) {
	const small, large = 4 << 10, 32 << 10
	for name, content := range linear {
		t.Run(name, func(t *testing.T) {
			steps, memory := spent(t, content, linearBody(small))
			moreSteps, moreMemory := spent(t, content, linearBody(large))
			t.Logf("%d and %d steps, %d and %d bytes", steps, moreSteps, memory, moreMemory)
			const allowed = large / small * 3 / 2
			if moreSteps > allowed*(steps+10) {
				t.Errorf("got %d steps for %d bytes, %d for %d, want at most %v", steps, small, moreSteps, large, allowed*(steps+10))
			}
			if moreMemory > allowed*(memory+1000) {
				t.Errorf("got %d bytes of memory for %d bytes, %d for %d, want at most %v", memory, small, moreMemory, large, allowed*(memory+1000))
			}
		})
	}
}

func TestLinearProgramsKeepTheDefaultBudget(t *testing.T) {
	run := func(name string, size int) {
		p, err := compile(linear[name], Options{})
		if err != nil {
			t.Fatal(name, err)
		}
		if _, err := p.eval(linearBody(size)); err != nil {
			t.Errorf("%s of %d bytes: got %v, want no error", name, size, err)
		}
	}
	for name := range linear {
		for _, size := range []int{1 << 10, 5 << 10, 10 << 10} {
			run(name, size)
		}
	}
	for _, name := range ofText {
		run(name, 1_000_000)
	}
}

// What a program makes of each character costs the same, however long the text is, so a body of 1 MB takes these programs too.
func TestProgramsOfCharactersTakeLargeBodies(t *testing.T) {
	sizes := []int{1 << 10, 10 << 10, 100 << 10}
	if casetest.All() {
		sizes = append(sizes, 1_000_000)
	}
	for name, content := range ofCharacters {
		t.Run(name, func(t *testing.T) {
			p, err := compile(content, Options{})
			if err != nil {
				t.Fatal(err)
			}
			steps, memory := spent(t, content, linearBody(sizes[1]))
			t.Logf("for each character %.2f steps and %.0f bytes of memory", float64(steps)/float64(sizes[1]), float64(memory)/float64(sizes[1]))
			for _, size := range sizes {
				ev := linearBody(size)
				var fail *Error
				took := cpuOf(func() { _, fail = p.Append(nil, ev, false) })
				t.Logf("%d bytes: %s, %d ns for each", size, took, took.Nanoseconds()/int64(size))
				if fail != nil {
					t.Errorf("%d bytes: got %v, want no error", size, fail.Err)
				}
			}
		})
	}
}

// Whatever a program does with a body of the largest size, it ends within the bound that docs/internals/compatibility.md states.
func TestBoundOfALargeBody(t *testing.T) {
	body := linearBody(1_000_000)
	for name, content := range map[string]string{
		"characters":      `local s = BodyStr(); std.foldl(function(n, k) n + std.length(std.join('', [s[i] for i in std.range(0, std.length(s) - 1)])), std.range(1, 100), 0)`,
		"counting":        `local s = BodyStr(); std.foldl(function(n, k) std.foldl(function(n, c) if c == ',' then n + 1 else n, s, n), std.range(1, 100), 0)`,
		"lists":           `std.map(function(i) std.mapWithIndex(function(j, c) [i, j, c], BodyStr()), std.range(1, 100))`,
		"objects":         `[{ [k]: i for k in std.objectFields(Body('o')) } for i in std.range(1, 1000)]`,
		"calls":           `local f(n) = if n == 0 then 0 else 1 + f(n - 1); std.foldl(function(n, i) n + f(100), std.range(1, 1000000), 0)`,
		"sorting":         `std.sort(std.mapWithIndex(function(i, c) c + i, BodyStr()))`,
		"sum of elements": `std.foldl(function(n, i) n + std.sum(Body('a')), std.range(1, 1000), 0)`,
	} {
		t.Run(name, func(t *testing.T) {
			p, err := compile(content, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if fail := endsWithin(t, time.Second, p, body); fail == nil || fail.Kind != Exceeded {
				t.Errorf("got %v, want a budget error", fail)
			}
		})
	}
}

// A sender who knows the template must not be able to stall the process either, so functions that look for names and
// elements in the body cost steps in proportion to the text they pass.
func TestHostileBodiesEndSoon(t *testing.T) {
	wide := linearBody(1_000_000)
	for name, content := range map[string]string{
		"members of a body":  `std.length([Body('o')['k' + i] for i in std.range(0, 20000)])`,
		"elements of a body": `std.length([Body('a')[i] for i in std.range(0, 20000)])`,
		"paths":              `std.foldl(function(n, i) n + Body('a[' + (i + 15000) + ']'), std.range(0, 9000), 0)`,
		"paths of members":   `std.foldl(function(n, i) n + Body('o.k' + (i + 15000)), std.range(0, 9000), 0)`,
		"missing paths":      `std.foldl(function(n, i) n + Body('o.x' + i, 0), std.range(0, 20000), 0)`,
		"presence":           `std.length(std.filter(function(i) std.objectHas(Body('o'), 'x'), std.range(0, 20000)))`,
	} {
		t.Run(name, func(t *testing.T) {
			p, err := compile(content, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if fail := endsWithin(t, 100*time.Millisecond, p, wide); fail != nil && fail.Kind != Exceeded {
				t.Error(fail.Err)
			}
		})
	}
}
