package mapping

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/forebay/forebay/internal/fuzztest"
)

func TestForm(t *testing.T) {
	for _, tc := range []struct{ body, want string }{
		{``, `{}`},
		{`a=1`, `{"a":"1"}`},
		{`a=1&a=2`, `{"a":"2"}`},
		{`b=1&a=2&b=3`, `{"b":"3","a":"2"}`},
		{`a`, `{"a":""}`},
		{`=x`, `{"":"x"}`},
		{`&&a=1&`, `{"a":"1"}`},
		{`a=1+2%203%26`, `{"a":"1 2 3&"}`},
		{`a=1;b=2`, `{"a":"1;b=2"}`},
		{`t=text/html; charset=utf-8&b;c=`, `{"t":"text/html; charset=utf-8","b;c":""}`},
		{`a=b=c`, `{"a":"b=c"}`},
		{`a[]=1&a[]=2`, `{"a":["1","2"]}`},
		{`a[k]=1&a[l]=2`, `{"a":{"k":"1","l":"2"}}`},
		{`a[0][x]=1&a[1][x]=2`, `{"a":[{"x":"1"},{"x":"2"}]}`},
		{`a[2]=x`, `{"a":[null,null,"x"]}`},
		{`a[0]=x&a[k]=y`, `{"a":{"0":"x","k":"y"}}`},
		{`a[k]=x&a[]=y`, `{"a":{"k":"x","1":"y"}}`},
		{`a=1&a[k]=2`, `{"a":{"k":"2"}}`},
		{`a[k]=2&a=1`, `{"a":"1"}`},
		{`a[b=1`, `{"a[b":"1"}`},
		{`a]b=1`, `{"a]b":"1"}`},
		{`[x]=1`, `{"[x]":"1"}`},
		{`a[b]c=1`, `{"a[b]c":"1"}`},
		{`a%5Bk%5D=1`, `{"a":{"k":"1"}}`},
		{`t=%3Cb%3E%22%5C%0A`, `{"t":"<b>\"\\\n"}`},
		{`t=%ff%C3%A9`, `{"t":"` + "\xff" + `é"}`},
		{`a%00=%00`, `{"a\u0000":"\u0000"}`},
	} {
		got, err := appendForm(nil, []byte(tc.body), false)
		if err != nil || string(got) != tc.want {
			t.Errorf("%s: got %s %v, want %s", tc.body, got, err, tc.want)
		}
	}
	for body, want := range map[string]string{
		`a=%zz`:                                "invalid %-escape in the pair near byte 0",
		`ok=1&b=%`:                             "invalid %-escape in the pair near byte 5",
		`a[9999999]=1`:                         "more than 100000 values, gaps of arrays included",
		`a[2147483648]=1`:                      "",
		`a` + strings.Repeat("[x]", 33) + `=1`: "more than 32 brackets",
	} {
		got, err := appendForm(nil, []byte(body), false)
		if want == "" {
			if err != nil {
				t.Errorf("%s: got %v, want no error", body, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %.40s: %s %v, want %s", body, got, err, want)
		}
	}
}

// The published service refuses a semicolon.
func TestFormWithSemicolonAndCompat(t *testing.T) {
	if got, err := appendForm(nil, []byte(`a=1;b=2`), true); err == nil || !strings.Contains(err.Error(), "semicolon in a pair") {
		t.Errorf("a=1;b=2 with compat: %s %v, want an error", got, err)
	}
}

// Untyped columns have U+FFFD for each byte that is not UTF-8, in names too.
func TestFormThatIsNotUTF8(t *testing.T) {
	m := mustCompile(t, Path("json", "a\ufffd"), Path("text", "a\ufffd", RawString()), Path("all", ""), Template("t", `Body("a\ufffd")`), Path("h", "h"))
	want := []string{"\"é\ufffd\ufffd\"", "é\ufffd\ufffd", "{\"a\ufffd\":\"é\ufffd\ufffd\",\"h\":\"\u2028\"}", "\"é\ufffd\ufffd\"", "\"\u2028\""}
	for i, cell := range m.Cells(&Record{Body: []byte("a%ff=%C3%A9%E2%80&h=%E2%80%A8"), Format: FormatForm}) {
		if cell.Err != nil || cell.Value != want[i] {
			t.Errorf("%s: got %q, %v, want %q", cell.Column, cell.Value, cell.Err, want[i])
		}
	}
}

func FuzzForm(tf *testing.F) {
	f := fuzztest.New(tf)
	f.Add([]byte(`a=1&a[]=2&b[0][x]=%41&c[k]=+`))
	f.Add([]byte(`a[0]=x&a[k]=y&a[]=z`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) > 2000 {
			return
		}
		out, err := appendForm([]byte("x"), body, false)
		if err == nil && !json.Valid(out[1:]) {
			t.Fatalf("%q: got %s, want JSON", body, out[1:])
		}
	})
}
