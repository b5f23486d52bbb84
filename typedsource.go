package forebay

import (
	"context"
	"fmt"
	"sync"

	"github.com/forebay/forebay/mapping"
)

// TypedSource accepts values of a Go type for a source. See [Typed]. It is safe for concurrent use.
type TypedSource[T any] struct {
	engine  *Engine
	source  string
	encoder *mapping.Encoder[T]
	pool    sync.Pool // of *[]*mapping.Record, the records of one call, which returns them
}

// Typed returns the intake of a source for values of T, which is a struct or a pointer to a struct. [mapping.ColumnsOf] makes the columns of such a source. Encoding
// a value costs no reflection and no memory for most types, see [mapping.Encoder].
//
// Typed checks T once. The error names each field of T that has no JSON, and each column of the sinks that values of T can never fill, see
// [mapping.Encoder.Check]. The error is or wraps [ErrUnknownSource] if the source is not defined. If the source is defined again later, its rows have the columns of the new definition, which is not checked against T.
func Typed[T any](e *Engine, sourceID string) (*TypedSource[T], error) {
	encoder, err := mapping.NewEncoder[T]()
	if err != nil {
		return nil, fmt.Errorf("forebay: source %q: %w", sourceID, err)
	}
	def, ok := e.Source(sourceID)
	if !ok {
		return nil, unknownSource(sourceID)
	}
	var problems []error
	for _, s := range def.Sinks {
		if err := encoder.Check(s.Table.Columns); err != nil {
			for _, err := range each(err) {
				problems = append(problems, fmt.Errorf("sink %q: %w", s.ID, err))
			}
		}
	}
	if len(problems) > 0 {
		return nil, &DefinitionError{Source: sourceID, Problems: problems}
	}
	return &TypedSource[T]{engine: e, source: sourceID, encoder: encoder}, nil
}

// Ingest stores the rows of values, as [Engine.IngestBatch] does for records. It waits once for all of them, and returns a result for each value when
// the rows are on local disk. Ingest does not keep the values. The values, and all data that they point to, must not change before Ingest returns.
func (s *TypedSource[T]) Ingest(ctx context.Context, values ...T) ([]Result, error) {
	return s.ingest(ctx, nil, values)
}

// IngestOnce is Ingest for a call that may be repeated with the same values. See [Engine.IngestOnce].
func (s *TypedSource[T]) IngestOnce(ctx context.Context, once Once, values ...T) ([]Result, error) {
	return s.ingest(ctx, &once, values)
}

func (s *TypedSource[T]) ingest(ctx context.Context, once *Once, values []T) ([]Result, error) {
	records, ok := s.pool.Get().(*[]*mapping.Record)
	if !ok {
		records = new([]*mapping.Record)
	}
	list := (*records)[:min(len(values), len(*records))]
	for i := range values {
		if i == len(list) {
			list = append(list, new(mapping.Record))
		}
		s.encoder.Set(list[i], &values[i])
	}
	results, err := Intake{engine: s.engine}.ingest(ctx, s.source, once, list)
	for _, r := range list {
		s.encoder.Set(r, nil) // the values are not kept
	}
	if len(list) <= maxTypedRecords {
		*records = append(list, (*records)[min(len(list), len(*records)):]...)
		s.pool.Put(records)
	}
	return results, err
}

// maxTypedRecords bounds the records that are kept for the next call.
const maxTypedRecords = 1024
