package iceberg

import (
	"context"
	"crypto/sha256"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	iceberglib "github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
)

const (
	// recordPrefix begins the name of the property with the ids of an engine.
	recordPrefix = "forebay.imported."
	// summaryKey is in the summary of a snapshot, for people.
	summaryKey = "forebay.files"
	// maxIDs bounds the ids of an engine in a property. A file whose commit has an unknown outcome is imported again before any other
	// of its sink, so few are needed.
	maxIDs = 500
)

// splitID returns the engine of a file, which begins its id, and the rest.
func splitID(id string) (engine, rest string) {
	i := strings.LastIndexByte(id, '-')
	return id[:max(i, 0)], id[i+1:]
}

// record is a property with the ids of one engine: "2026-11-22T07:47:19Z 0 f000000000001=1000 f000000000002=1", in the order of their
// commits.
type record struct {
	at      time.Time
	dropped int64
	files   []recordedFile
}

type recordedFile struct {
	id   string // without the engine
	rows int64
}

func parseRecord(text string) (r record, err error) {
	fields := strings.Fields(text)
	if len(fields) < 2 {
		return r, nil
	}
	if r.at, err = time.Parse(time.RFC3339, fields[0]); err != nil {
		return r, err
	}
	if r.dropped, err = strconv.ParseInt(fields[1], 10, 64); err != nil {
		return r, err
	}
	for _, f := range fields[2:] {
		id, rows, _ := strings.Cut(f, "=")
		n, err := strconv.ParseInt(rows, 10, 64)
		if err != nil {
			return r, err
		}
		r.files = append(r.files, recordedFile{id, n})
	}
	return r, nil
}

// recordOf returns the table's record of the engine of a file.
func recordOf(props iceberglib.Properties, fileID string) (r record, err error) {
	engine, _ := splitID(fileID)
	if r, err = parseRecord(props[recordPrefix+engine]); err != nil {
		return r, fmt.Errorf("the property %s is damaged: %w", recordPrefix+engine, err)
	}
	return r, nil
}

// find returns the rows of a file that was imported.
func (r *record) find(fileID string) (rows int64, found bool) {
	_, id := splitID(fileID)
	for _, f := range r.files {
		if f.id == id {
			return f.rows, true
		}
	}
	return 0, false
}

func (r *record) add(fileID string, rows int64) {
	_, id := splitID(fileID)
	r.files = append(r.files, recordedFile{id, rows})
	if over := len(r.files) - maxIDs; over > 0 {
		r.dropped += int64(over)
		r.files = r.files[over:]
	}
}

func (r *record) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d", r.at.UTC().Format(time.RFC3339), r.dropped)
	for _, f := range r.files {
		fmt.Fprintf(&b, " %s=%d", f.id, f.rows)
	}
	return b.String()
}

// staleRecords returns the properties of engines that have imported nothing since a time.
func staleRecords(props iceberglib.Properties, since time.Time) (keys []string) {
	for key, text := range props {
		if !strings.HasPrefix(key, recordPrefix) {
			continue
		}
		if r, err := parseRecord(text); err == nil && r.at.Before(since) {
			keys = append(keys, key)
		}
	}
	return keys
}

// ownMark is in the names of all data files that this driver writes. A random UUID of another program has it once in four million.
var ownMark = [3]byte{0x9f, 0x0b, 0xa1}

// ownName matches the names of data files with the mark.
var ownName = regexp.MustCompile(`^\d+-\d+-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-9f0b-a1[0-9a-f]{10}-\d+\.parquet$`)

// ownFile reports whether this driver has written a data file.
func ownFile(path string) bool { return ownName.MatchString(path[strings.LastIndexAny(path, `/\`)+1:]) }

// attemptUUID is in the names of the data files of an attempt. Its first 8 bytes stand for the file, the last 5 for the attempt.
func attemptUUID(fileID string) uuid.UUID {
	id := mergeUUID()
	sum := sha256.Sum256([]byte(fileID))
	copy(id[:8], sum[:8])
	return id
}

// mergeUUID is in the names of merged data files.
func mergeUUID() uuid.UUID {
	id := uuid.New()
	copy(id[8:], ownMark[:])
	return id
}

// pathHas reports whether a data file was written by an attempt to import a file.
func pathHas(path, fileID string) bool {
	sum := sha256.Sum256([]byte(fileID))
	id := uuid.UUID(sum[:16]).String()
	return strings.Contains(path[strings.LastIndexByte(path, '/')+1:], "-"+id[:18]+"-")
}

// rowsInFiles counts the rows of a file in the data files of the newest snapshot. It reads all manifests. A file whose rows were
// compacted, or deleted, has none.
func rowsInFiles(ctx context.Context, t *table.Table, fileID string) (rows int64, err error) {
	if t.CurrentSnapshot() == nil {
		return 0, nil
	}
	tasks, err := t.Scan().PlanFiles(ctx)
	if err != nil {
		return 0, err
	}
	counted := make(map[string]bool) // a large file has several tasks
	for _, task := range tasks {
		if path := task.File.FilePath(); pathHas(path, fileID) && !counted[path] {
			counted[path] = true
			rows += task.File.Count()
		}
	}
	return rows, nil
}
