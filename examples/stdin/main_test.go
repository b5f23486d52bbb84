package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// numbers writes lines as fast as they are read.
func numbers(n int) io.Reader {
	r, w := io.Pipe()
	go func() {
		b := bufio.NewWriter(w)
		for i := range n {
			fmt.Fprintf(b, "line %d %x\n", i, uint64(i+1)*0x9e3779b97f4a7c15)
		}
		_ = b.Flush() // the reader may be gone
		_ = w.Close()
	}()
	return r
}

// Far more lines than may wait at once. All are in the table, in their order, and none was refused.
func TestAllLinesArriveInOrder(t *testing.T) {
	const n = 50_000
	dir := filepath.Join(t.TempDir(), "data")
	var out strings.Builder
	if err := run(t.Context(), []string{"-data", dir, "-max", "65536"}, numbers(n), &out); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%d lines are in the table\n", n); out.String() != want {
		t.Errorf("got %q, want %q", &out, want)
	}
	files, err := filepath.Glob(filepath.Join(dir, "tables", "in.c-stdin.lines", "*.csv"))
	if err != nil || len(files) < 3 {
		t.Fatalf("got %d files, %v; want several", len(files), err)
	}
	next := 0
	for _, name := range files { // ids ascend
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, rows, _ := strings.Cut(string(content), "\n") // after the header
		for row := range strings.Lines(rows) {
			if !strings.Contains(row, fmt.Sprintf(`"line %d `, next)) {
				t.Fatalf("row %q of %s is not line %d", row, filepath.Base(name), next)
			}
			next++
		}
	}
	if next != n {
		t.Errorf("got %d rows, want %d", next, n)
	}
}

// An input that is broken off says how many lines are stored.
func TestAnEndedContextSaysWhatIsStored(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	go func() {
		_, _ = io.WriteString(w, "one\ntwo\n")
		cancel()
		_, _ = io.WriteString(w, "three\n")
		_ = w.Close()
	}()
	err := run(ctx, []string{"-data", filepath.Join(t.TempDir(), "data")}, r, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "lines are on disk") {
		t.Errorf("got %v, want an error and strings.Contains(err.Error(), \"lines are on disk\")", err)
	}
}

func TestALineThatIsTooLongIsNamed(t *testing.T) {
	in := strings.NewReader("one\ntwo\n" + strings.Repeat("x", maxLine+1))
	err := run(t.Context(), []string{"-data", filepath.Join(t.TempDir(), "data")}, in, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "2 lines are on disk") || !strings.Contains(err.Error(), "line 3 has more than") {
		t.Errorf("got %v, want an error and strings.Contains(err.Error(), \"2 lines are on disk\") and strings.Contains(err.Error(), \"line 3 has more than\")", err)
	}
}
