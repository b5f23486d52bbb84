package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/trigger"
)

// Overrides are the settings that a source or sink does not inherit, as canonical JSON values by key.
type Overrides map[string]json.RawMessage

// Setting is the value of a key for one source or sink.
type Setting struct {
	// Key is a dotted path, such as storage.level.local.encoding.sync.wait.
	Key string
	// Type is "string", "int", "bool" or "[]string". Durations and sizes are strings.
	Type string
	// Description is for people.
	Description string
	// Value is in force. Default is the value of the service.
	Value, Default any
	// Origin is where the value comes from: "default", "source" or "sink".
	Origin string
	// Overwritten is set when this source or sink itself has the value.
	Overwritten bool
	// Protected settings can be changed by the operator only.
	Protected bool
	// Validation is the rule for values, in words.
	Validation string
	// Warning says why the value has no effect. Either a bound of the engine is reached first, or the engine has a different limit since the
	// value was set. Otherwise it is empty.
	Warning string
}

// SettingChange gives one key a new value.
type SettingChange struct {
	// Key is the Key of a [Setting].
	Key string
	// Value is a JSON value. Null or nothing makes the key inherited again.
	Value json.RawMessage
}

type kind uint8

const (
	kindBool kind = iota
	kindInt
	kindDuration
	kindSize
	kindText
	kindTexts
	kindWord    // one of key.words
	kindHeaders // names of headers, separated by commas
)

// key is a setting as the service defines it.
type key struct {
	name, description string
	kind              kind
	def               any   // as it is shown
	low, high         int64 // of ints, nanoseconds or bytes
	protected         bool
	words             []string
	// ofSource is set for keys that sinks do not have.
	ofSource bool
	// set puts a parsed value into the settings of the engine. Nil means that it is not among them.
	set func(*forebay.Settings, any)
}

const (
	syncWait = "storage.level.local.encoding.sync.wait"
	splitKey = "ingest.split"
	keepKey  = "ingest.keepHeaders"
	encoding = "storage.level.local.encoding."
	upload   = "storage.level.staging.upload.trigger."
	imports  = "storage.level.target.import.trigger."
)

// keys are all settings, sorted by name.
type keys []*key

// newKeys returns the settings for an engine with these limits of imports. See buffer.Tuning.ImportLimits.
func newKeys(importLimits trigger.Limits) keys {
	list := keys{
		{
			name: syncWait, kind: kindBool, def: true,
			description: "Confirm a record only after it has been written to local disk.",
			set: func(s *forebay.Settings, v any) {
				s.Sync = forebay.SyncUnsafe
				if v.(bool) {
					s.Sync = forebay.SyncWait
				}
			},
		},
		{
			name: splitKey, kind: kindWord, def: "none", words: []string{"none", "array", "lines"}, ofSource: true,
			description: "How a request's body is taken apart into events: none, the elements of a JSON array, or the lines.",
		},
		{
			name: keepKey, kind: kindHeaders, def: "", ofSource: true,
			description: "Headers that quarantines and the archive keep in addition to the headers that the columns read, such as X-Shop-Id, X-Version; * for all. Headers whose names sound like a secret are never kept.",
		},
		{
			name: archiveKey, kind: kindBool, def: false, ofSource: true,
			description: "Keep each raw record in the archive of the service, in addition to the rows of the sinks. Replays read it.",
		},
		{
			name: encoding + "compression.type", kind: kindText, def: "gzip", words: []string{"none", "gzip"}, protected: true,
			description: "Compression of the rows that wait.",
		},
		{name: encoding + "compression.gzip.level", kind: kindInt, def: int64(1), low: 1, high: 9, protected: true, description: "Level of gzip: 1 (fastest) to 9."},
		{name: encoding + "compression.gzip.implementation", kind: kindText, def: "parallel", words: []string{"standard", "fast", "parallel"}, protected: true, description: "Implementation of gzip."},
		{name: encoding + "compression.gzip.blockSize", kind: kindSize, def: "256KB", low: 16 << 10, high: 100 << 20, protected: true, description: "Block that is compressed at once."},
		{name: encoding + "compression.gzip.concurrency", kind: kindInt, def: int64(0), protected: true, description: "Blocks that are compressed at the same time; 0 is automatic."},
		{name: encoding + "encoder.type", kind: kindText, def: "csv", words: []string{"csv"}, protected: true, description: "Format of the rows."},
		{name: encoding + "encoder.concurrency", kind: kindInt, def: int64(0), high: 256, protected: true, description: "Encoders that run at the same time; 0 is the number of cores."},
		{name: encoding + "inputBuffer", kind: kindSize, def: "2MB", high: 16 << 20, protected: true, description: "Rows that wait to be compressed; 0 is none."},
		{name: encoding + "maxChunkSize", kind: kindSize, def: "512KB", low: 64 << 10, high: 1 << 20, protected: true, description: "Largest piece that is written at once."},
		{name: encoding + "failedChunksThreshold", kind: kindInt, def: int64(3), low: 1, high: 100, protected: true, description: "Failed writes after which a slice is not ready."},
		{name: encoding + "sync.mode", kind: kindText, def: "disk", words: []string{"disk", "cache"}, protected: true, description: "What a confirmation waits for."},
		{name: encoding + "sync.checkInterval", kind: kindDuration, def: "5ms", low: int64(time.Millisecond), high: int64(30 * time.Second), protected: true, description: "How often the conditions of a sync are looked at."},
		{name: encoding + "sync.intervalTrigger", kind: kindDuration, def: "50ms", low: int64(10 * time.Millisecond), high: int64(30 * time.Second), protected: true, description: "Longest time between two syncs."},
		{name: encoding + "sync.countTrigger", kind: kindInt, def: int64(10000), low: 1, high: 1_000_000, protected: true, description: "Records after which is synced."},
		{name: encoding + "sync.uncompressedBytesTrigger", kind: kindSize, def: "1MB", low: 100, high: 500 << 20, protected: true, description: "Row bytes after which is synced."},
		{name: encoding + "sync.compressedBytesTrigger", kind: kindSize, def: "256KB", low: 100, high: 100 << 20, protected: true, description: "Compressed bytes after which is synced."},
		{name: "storage.level.local.volume.assignment.count", kind: kindInt, def: int64(1), low: 1, high: 100, protected: true, description: "Volumes of a file."},
		{name: "storage.level.local.volume.assignment.preferredTypes", kind: kindTexts, def: []string{"default"}, protected: true, description: "Types of volumes, best first."},
		{name: imports + "expiration", kind: kindDuration, def: "30m0s", low: int64(5 * time.Minute), high: int64(45 * time.Minute), protected: true, description: "A file is imported when its credentials expire within this time."},
		{name: imports + "slicesCount", kind: kindInt, def: int64(100), low: 1, high: 200, protected: true, description: "Slices after which a file is imported."},
	}
	list = append(list, triggerKeys(upload, "Upload a slice to staging", trigger.Upload(), func(s *forebay.Settings) *trigger.Conditions { return &s.Upload })...)
	list = append(list, triggerKeys(imports, "Import a file into the table", importLimits, func(s *forebay.Settings) *trigger.Conditions { return &s.Import })...)
	slices.SortFunc(list, func(a, b *key) int { return strings.Compare(a.name, b.name) })
	return list
}

// triggerKeys are the three conditions of one step.
func triggerKeys(prefix, what string, l trigger.Limits, of func(*forebay.Settings) *trigger.Conditions) []*key {
	def := l.WithDefaults(trigger.Conditions{})
	return []*key{
		{
			name: prefix + "count", kind: kindInt, def: def.Count, low: l.Min.Count, high: l.Max.Count, description: what + " after this number of rows.",
			set: func(s *forebay.Settings, v any) { of(s).Count = v.(int64) },
		},
		{
			name: prefix + "size", kind: kindSize, def: trigger.FormatSize(def.Size), low: l.Min.Size, high: l.Max.Size, description: what + " after this number of stored bytes.",
			set: func(s *forebay.Settings, v any) { of(s).Size = v.(int64) },
		},
		{
			name: prefix + "interval", kind: kindDuration, def: def.Interval.String(), low: int64(l.Min.Interval), high: int64(l.Max.Interval), description: what + " after this time.",
			set: func(s *forebay.Settings, v any) { of(s).Interval = time.Duration(v.(int64)) },
		},
	}
}

func (k *key) typeName() string {
	switch k.kind {
	case kindBool:
		return "bool"
	case kindInt:
		return "int"
	case kindTexts:
		return "[]string"
	}
	return "string"
}

// validation returns the rule for values in the syntax of the service, or "" if there is none.
func (k *key) validation() string {
	var rules []string
	if k.words != nil {
		rules = append(rules, "oneof="+strings.Join(k.words, " "))
	}
	if k.kind == kindTexts {
		rules = append(rules, "min=1") // items
	}
	if k.high > 0 {
		name := map[kind]string{kindDuration: "Duration", kindSize: "Bytes"}[k.kind]
		if k.low > 0 || k.kind == kindInt {
			rules = append(rules, "min"+name+"="+k.bound(k.low))
		}
		rules = append(rules, "max"+name+"="+k.bound(k.high))
	}
	if len(rules) > 0 && (k.low > 0 || k.high == 0) { // else zero is a value
		rules = append([]string{"required"}, rules...)
	}
	return strings.Join(rules, ",")
}

// shortDuration writes 30m instead of 30m0s.
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// named returns nil for an unknown name.
func (all keys) named(name string) *key {
	i, ok := slices.BinarySearchFunc(all, name, func(k *key, name string) int { return strings.Compare(k.name, name) })
	if !ok {
		return nil
	}
	return all[i]
}

// parse returns the value for set, and the value to store and show. It refuses a number outside of the limits.
func (k *key) parse(raw json.RawMessage) (value, shown any, err error) {
	if value, shown, err = k.read(raw); err != nil {
		return nil, nil, err
	}
	if n, ok := value.(int64); ok && (n < k.low || n > k.high) {
		return nil, nil, fmt.Errorf("%v is out of range, allowed is %s", shown, strings.TrimPrefix(k.validation(), "required,"))
	}
	return value, shown, nil
}

// stored is parse for a value that was set before. The engine may have been opened with other limits since, so the nearest allowed
// number is in force, and warning says so. A refusal would leave the whole source out of use.
func (k *key) stored(raw json.RawMessage) (value, shown any, warning string, err error) {
	value, shown, err = k.read(raw)
	n, ok := value.(int64)
	if err != nil || !ok || n >= k.low && n <= k.high {
		return value, shown, "", err
	}
	n = min(max(n, k.low), k.high)
	now := k.show(n)
	return n, now, fmt.Sprintf("The value was set to %v, and the server now allows %s to %s, so %v is in force.", shown, k.bound(k.low), k.bound(k.high), now), nil
}

// show returns a number as it is stored and shown.
func (k *key) show(n int64) any {
	switch k.kind {
	case kindDuration:
		return time.Duration(n).String()
	case kindSize:
		return trigger.FormatSize(n)
	}
	return n
}

// bound is show for texts about limits.
func (k *key) bound(n int64) string {
	if k.kind == kindDuration {
		return shortDuration(time.Duration(n))
	}
	return fmt.Sprint(k.show(n))
}

// read is parse without the limits.
func (k *key) read(raw json.RawMessage) (value, shown any, err error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, nil, errors.New("the value is not JSON")
	}
	var n int64
	switch k.kind {
	case kindBool:
		b, ok := v.(bool)
		if !ok {
			return nil, nil, errors.New("the value must be true or false")
		}
		return b, b, nil
	case kindInt:
		number, ok := v.(json.Number)
		if !ok {
			return nil, nil, errors.New("the value must be a whole number")
		}
		if n, err = wholeNumber(number); err != nil {
			return nil, nil, err
		}
	case kindDuration:
		text, ok := v.(string)
		if !ok {
			return nil, nil, errors.New(`the value must be a text such as "30s" or "1m30s"`)
		}
		d, err := time.ParseDuration(text)
		if err != nil {
			return nil, nil, fmt.Errorf(`%q is not a duration such as "30s" or "1m30s"`, text)
		}
		n = int64(d)
	case kindSize:
		switch v := v.(type) {
		case string:
			if n, err = trigger.ParseSize(v); err != nil {
				return nil, nil, fmt.Errorf(`%q is not a size such as "256KB" or "5MB"`, v)
			}
		case json.Number:
			if n, err = wholeNumber(v); err != nil {
				return nil, nil, err
			}
		default:
			return nil, nil, errors.New(`the value must be a text such as "5MB", or a number of bytes`)
		}
	case kindWord:
		text, _ := v.(string)
		if !slices.Contains(k.words, text) {
			return nil, nil, fmt.Errorf("the value must be one of %q", k.words)
		}
		return text, text, nil
	case kindHeaders:
		text, ok := v.(string)
		if !ok {
			return nil, nil, errors.New(`the value must be a text such as "X-Shop-Id, X-Version"`)
		}
		names := headerNames(text)
		_, err := forebay.Compile(forebay.Source{ID: "any", KeepHeaders: names}, forebay.Options{})
		if e, ok := errors.AsType[*forebay.DefinitionError](err); ok {
			return nil, nil, errors.Join(e.Problems...)
		}
		text = strings.Join(names, ", ")
		return text, text, nil
	default:
		return nil, nil, errors.New("the value cannot be set")
	}
	return n, k.show(n), nil
}

func wholeNumber(n json.Number) (int64, error) {
	if i, err := strconv.ParseInt(n.String(), 10, 64); err == nil {
		return i, nil
	}
	// 5e3 and 5000.0 are whole as well.
	if f, err := n.Float64(); err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return int64(f), nil
	}
	return 0, fmt.Errorf("%s is not a whole number in range", n)
}

// with returns o with the changes. The error lists all problems.
func (o Overrides) with(all keys, changes []SettingChange, ofSink bool) (Overrides, *Error) {
	next := make(Overrides, len(o)+len(changes))
	maps.Copy(next, o)
	seen := map[string]bool{}
	var wrong, protected []string
	for _, c := range changes {
		k := all.named(c.Key)
		switch {
		case k == nil || ofSink && k.ofSource:
			wrong = append(wrong, fmt.Sprintf("%q is not a setting: read the settings to see their keys", c.Key))
			continue
		case seen[c.Key]:
			wrong = append(wrong, fmt.Sprintf("%q is given twice", c.Key))
			continue
		case k.protected:
			protected = append(protected, fmt.Sprintf("%q", c.Key))
			continue
		}
		seen[c.Key] = true
		if len(c.Value) == 0 || string(bytes.TrimSpace(c.Value)) == "null" {
			delete(next, c.Key)
			continue
		}
		_, shown, err := k.parse(c.Value)
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("%s: %v", c.Key, err))
			continue
		}
		next[c.Key] = encode(shown)
	}
	switch {
	case len(wrong) > 0:
		return nil, refuse(BadRequest, "Invalid settings: %s.", strings.Join(wrong, "; "))
	case len(protected) > 0:
		return nil, refuse(Forbidden, "These settings are protected, only the operator can change them: %s.", strings.Join(protected, ", "))
	case len(next) == 0:
		return nil, nil
	}
	return next, nil
}

// engine returns the overrides as settings of the engine. What is not overridden stays zero, which means inherited.
func (o Overrides) engine(all keys) (forebay.Settings, error) {
	var s forebay.Settings
	for name, raw := range o {
		k := all.named(name)
		if k == nil || k.set == nil {
			continue // of a later version, or one that has no effect
		}
		v, _, _, err := k.stored(raw)
		if err != nil {
			return s, fmt.Errorf("setting %s: %w", name, err)
		}
		k.set(&s, v)
	}
	return s, nil
}

// split returns how a source takes bodies apart.
func (o Overrides) split() forebay.Split {
	var word string
	if err := json.Unmarshal(o[splitKey], &word); err != nil || word == "none" {
		return forebay.SplitNone
	}
	return forebay.Split(word)
}

// keepHeaders returns the headers that a source keeps in addition to others.
func (o Overrides) keepHeaders() []string {
	var text string
	_ = json.Unmarshal(o[keepKey], &text) // it was checked when it was set, and nothing means none
	return headerNames(text)
}

// headerNames reads a list that is separated by commas.
func headerNames(text string) (names []string) {
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// archive returns whether a source keeps its raw records.
func (o Overrides) archive() (on bool) {
	_ = json.Unmarshal(o[archiveKey], &on) // it was checked when it was set, and nothing means false
	return on
}

// list returns all settings of a source (sink nil) or of one of its sinks, sorted by key.
func (all keys) list(source, sink Overrides, ofSink bool) []Setting {
	settings := make([]Setting, 0, len(all))
	for _, k := range all {
		if ofSink && k.ofSource {
			continue
		}
		s := Setting{
			Key: k.name, Type: k.typeName(), Description: k.description, Value: k.def, Default: k.def,
			Origin: "default", Protected: k.protected, Validation: k.validation(),
		}
		take := func(o Overrides, origin string, own bool) {
			raw, ok := o[k.name]
			if !ok {
				return
			}
			if _, shown, warning, err := k.stored(raw); err == nil {
				s.Value, s.Origin, s.Overwritten, s.Warning = shown, origin, own, warning
			}
		}
		take(source, "source", !ofSink)
		if ofSink {
			take(sink, "sink", true)
		}
		settings = append(settings, s)
	}
	return settings
}
