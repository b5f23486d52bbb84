package buffer_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// change replaces the content of a file of the data directory.
func (w *damageWorld) change(t *testing.T, name string, change func([]byte) []byte) {
	t.Helper()
	old, err := w.fs.UnsafeGetFileDataBuffer("data/" + name)
	if err != nil {
		t.Fatal(err)
	}
	data := change(bytes.Clone(old))
	writeFile(t, w.fs, "data/"+name, data)
}

// The database notes its settings in a file, and compares them when it is opened. No byte of it stops the start.
func TestDamagedSettingsStopNothing(t *testing.T) {
	settings := func(w *damageWorld) string {
		for name := range w.files(t) {
			if strings.HasPrefix(name, "OPTIONS-") {
				return name
			}
		}
		t.Fatal("there are no settings")
		return ""
	}
	for _, word := range []string{"comparer=", "merger=", "wal_dir=", "[Options]", "pebble_version=", "="} {
		for _, garbage := range []string{"x", "\x00", "]\n["} {
			t.Run(fmt.Sprintf("%s%q", word, garbage), func(t *testing.T) {
				w := newDamageWorld(t, false)
				w.change(t, settings(w), func(text []byte) []byte {
					at := bytes.Index(text, []byte(word))
					if at < 0 {
						t.Fatalf("%q is not in the settings", word)
					}
					return append(text[:at+len(word)], append([]byte(garbage), text[at+len(word)+1:]...)...)
				})
				if missing, list := w.check(t); missing > 0 || len(list) > 0 {
					t.Errorf("%d rows are missing, damage %+v", missing, summary(list))
				}
			})
		}
	}
}

// The note of the last Close tells a log that was cut from one that a crash has torn. With the note damaged as well the
// loss is reported all the same.
func TestDamagedNoteDoesNotHideALoss(t *testing.T) {
	for at := range 4 {
		for _, left := range []int{0, 1, 5, 9} {
			t.Run(fmt.Sprintf("%d/%d", at, left), func(t *testing.T) {
				w := newDamageWorld(t, false)
				for name := range w.files(t) {
					if strings.HasSuffix(name, ".log") {
						w.change(t, name, func(data []byte) []byte { return data[:len(data)*left/10] })
					}
				}
				w.change(t, "forebay-closed", func(data []byte) []byte {
					data[at*(len(data)-1)/3] ^= 4
					return data
				})
				missing, list := w.check(t) // which demands a report of what is missing
				if left < 5 && missing == 0 {
					t.Error("nothing is missing: this test is about rows that are lost")
				}
				if len(list) == 0 {
					t.Error("a damaged note is damage")
				}
			})
		}
	}
}
