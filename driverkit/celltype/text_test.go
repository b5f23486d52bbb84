package celltype_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/forebay/forebay/driverkit/celltype"
	"github.com/forebay/forebay/internal/fuzztest"
)

// checkBytes compares with encoding/base64, which skips line ends.
func checkBytes(t *testing.T, text string) {
	t.Helper()
	got, reason := celltype.AppendBytes([]byte("x"), []byte(text))
	var value []byte
	valid := false
	for _, e := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		if b, err := e.Strict().DecodeString(text); err == nil && !strings.ContainsAny(text, "\r\n") {
			value, valid = b, true
		}
	}
	if valid != (reason == celltype.OK) || valid && string(got) != "x"+base64.StdEncoding.EncodeToString(value) || !valid && string(got) != "x" {
		t.Errorf("base64 %q is %q %q, want %q %v", text, got, reason, value, valid)
	}
}

// checkUUID compares with encoding/hex.
func checkUUID(t *testing.T, text string) {
	t.Helper()
	got, reason := celltype.AppendUUID(nil, []byte(text))
	digits := text
	if len(text) == 36 && text[8] == '-' && text[13] == '-' && text[18] == '-' && text[23] == '-' {
		digits = text[:8] + text[9:13] + text[14:18] + text[19:23] + text[24:]
	}
	value, err := hex.DecodeString(digits)
	want := ""
	if err == nil && len(value) == 16 {
		h := hex.EncodeToString(value)
		want = h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
	}
	if string(got) != want || (want != "") != (reason == celltype.OK) {
		t.Errorf("uuid %q is %q %q, want %q", text, got, reason, want)
	}
}

// checkJSON compares with encoding/json, which replaces undecodable text with U+FFFD.
func checkJSON(t *testing.T, text string) {
	t.Helper()
	for _, s := range []string{text, `"` + text + `"`} {
		if !json.Valid([]byte(s)) {
			continue
		}
		dec := json.NewDecoder(strings.NewReader(strings.ReplaceAll(s, "\uFFFD", "")))
		lone, nul := false, false
		for {
			token, err := dec.Token()
			if err != nil {
				break
			}
			if word, ok := token.(string); ok {
				lone = lone || strings.Contains(word, "\uFFFD")
				nul = nul || strings.ContainsRune(word, 0)
			}
		}
		if strings.Contains(strings.ToLower(s), `\ufffd`) { // an escape that stands for itself
			continue
		}
		for _, noNUL := range []bool{false, true} {
			switch got := celltype.CheckJSON([]byte(s), noNUL); {
			case !utf8.ValidString(s):
				if got != celltype.NotUTF8 {
					t.Errorf("%q: got %q, want notUTF8", s, got)
				}
			case (lone || nul && noNUL) != (got != celltype.OK), got == celltype.HasNUL && !nul, got == celltype.LoneSurrogate && !lone:
				t.Errorf("%q: got %q, want an error for a lone surrogate: %v, for NUL: %v", s, got, lone, nul)
			}
		}
	}
}

func FuzzText(tf *testing.F) {
	f := fuzztest.New(tf)
	for _, s := range []string{
		"", "QUJD", "QUI=", "QQ==", "QQ", "QR==", "-_+/", "Q\nQ==", "====", "0190a5b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b", "0190A5B27C3D7E4F8A5B6C7D8E9F0A1B",
		`\ud83d\ude00`, `\ud83d`, `\ude00\ud83d`, `\ud83d\n`, `\\ud83d`, `\u0000`, `\\u0000`, `["\uD83D\uDE00\u0000"]`, `\ud83d\u0041`, "\xff", `\uDBFF\uDFFF`, `\ud7ff\ue000`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		checkBytes(t, s)
		checkUUID(t, s)
		checkJSON(t, s)
	})
}

// Every text of the two alphabets, of each length, is read or refused as by the library.
func TestBytesAsLibrary(t *testing.T) {
	const alphabet = "AQRZ/+-_= \n9"
	text := make([]byte, 5)
	for n := range 5 {
		total := 1
		for range n {
			total *= len(alphabet)
		}
		for i := range total {
			for k := range n {
				text[k] = alphabet[i%len(alphabet)]
				i /= len(alphabet)
			}
			checkBytes(t, string(text[:n]))
			checkBytes(t, "QUJD"+string(text[:n]))
		}
	}
	for b := range 256 {
		checkBytes(t, "AB"+string(rune(b))+"D")
		checkBytes(t, string(append([]byte("AB"), byte(b), 'D')))
		text := bytes.Repeat([]byte("a"), 32)
		for i := range text {
			text[i] = byte(b)
			checkUUID(t, string(text))
			text[i] = 'F'
		}
	}
}
