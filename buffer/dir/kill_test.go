//go:build unix

package dir

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
)

// kills is how often TestKillDuringMerges kills a process. 200 were run for the record.
var kills = flag.Int("merge-kills", 5, "kills of a process that imports and merges")

// killEnv is set, to the folder of the tables, in the process that is killed.
const killEnv = "FOREBAY_MERGE_CHILD"

var killOptions = TablesOptions{PartitionBy: "at", MergeTo: 1 << 20}

const killRows = 10 // a file

func killFile(n int) *buffer.File {
	return newFile(fmt.Sprintf("file-%06d", n), dayTable, dayRows(killRows*n, killRows))
}

// importUntilKilled imports files from number n on, and merges them. It tells each that is imported.
func importUntilKilled(root string, n int) error {
	tables := TablesWith(root, killOptions)
	tables.folder.Grace = 10 * time.Second
	for ; ; n++ {
		if err := tables.Import(context.Background(), killFile(n)); err != nil {
			return err
		}
		fmt.Println(n)
		if err := tables.Compact(context.Background(), dayTable); err != nil {
			return err
		}
	}
}

// countsOf reads a table as a program would that resolves its link once, and lists and reads the parts.
func countsOf(root string) (map[string]int, error) {
	dir, err := filepath.EvalSymlinks(Tables(root).Path(dayTable.ID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	parts, err := filepath.Glob(filepath.Join(dir, "dt=*", "*.csv"))
	if err != nil {
		return nil, err
	}
	rows := make(map[string]int)
	for _, path := range parts {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		for i, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
			if i > 0 {
				rows[line]++
			}
		}
	}
	return rows, nil
}

// checkRows checks that there are the rows of the first files, least at least, each once and each file whole.
func checkRows(rows map[string]int, least int) error {
	for row, n := range rows {
		if n != 1 {
			return fmt.Errorf("row %s is there %d times", row, n)
		}
	}
	files := len(rows) / killRows
	if len(rows)%killRows != 0 || files < least {
		return fmt.Errorf("%d rows, want those of %d files or more", len(rows), least)
	}
	for _, row := range dayRows(0, files*killRows) {
		if rows[strings.TrimSuffix(string(csvRow(row...)), "\n")] != 1 {
			return fmt.Errorf("row %q is missing among those of %d files", row, files)
		}
	}
	return nil
}

// TestKillDuringMerges kills a process that imports files of several days and merges their parts, again and again at any
// moment. Readers beside it see every file whole and every row once, always.
func TestKillDuringMerges(t *testing.T) {
	if root := os.Getenv(killEnv); root != "" {
		from, _ := strconv.Atoi(os.Getenv(killEnv + "_FROM"))
		t.Fatal(importUntilKilled(root, from))
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	root := filepath.Join(t.TempDir(), "tables")
	var imported, reads atomic.Int64
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				least := int(imported.Load())
				rows, err := countsOf(root)
				if err == nil {
					err = checkRows(rows, least)
				}
				if err != nil {
					t.Errorf("a reader: %v", err)
					return
				}
				reads.Add(1)
				select {
				case <-done:
					return
				case <-time.After(time.Millisecond):
				}
			}
		})
	}
	for range *kills {
		// The last file may be there although the process did not say so: the next one imports it again.
		killAfter(t, root, &imported, 1+rng.IntN(20), time.Duration(rng.IntN(20_000))*time.Microsecond)
	}
	close(done)
	readers.Wait()
	tables := TablesWith(root, killOptions)
	tables.folder.Grace = 0
	n := int(imported.Load())
	for i := range n {
		if err := tables.Import(t.Context(), killFile(i)); err != nil {
			t.Fatal(err)
		}
		if rows, err := tables.CountFile(t.Context(), dayTable, killFile(i).ID); err != nil || rows != killRows {
			t.Errorf("file %d has %d rows, %v", i, rows, err)
		}
	}
	if err := tables.Compact(t.Context(), dayTable); err != nil {
		t.Fatal(err)
	}
	rows, err := countsOf(root)
	if err == nil {
		err = checkRows(rows, n)
	}
	if err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(tables.folder.VersionsPath(dayTable.ID)); err != nil || len(left) != 1 {
		t.Errorf("versions %v, %v", left, err)
	}
	t.Logf("%d kills, %d files, %d reads, %d parts", *kills, n, reads.Load(), len(partNames(t, tables, dayTable.ID)))
}

// killAfter runs a process until it has imported some files, and kills it a moment later.
func killAfter(t *testing.T, root string, imported *atomic.Int64, files int, moment time.Duration) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKillDuringMerges$")
	cmd.Env = append(os.Environ(), killEnv+"="+root, fmt.Sprintf("%s_FROM=%d", killEnv, imported.Load()))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := func() { _ = cmd.Process.Kill() }
	in := bufio.NewScanner(out)
	for in.Scan() {
		n, err := strconv.Atoi(in.Text())
		if err != nil {
			t.Errorf("the process says %q", in.Text())
			continue
		}
		imported.Store(int64(n + 1))
		if files--; files == 0 {
			time.AfterFunc(moment, kill)
		}
	}
	kill()
	_ = cmd.Wait()
	if files > 0 {
		t.Fatalf("the process ended by itself")
	}
}
