package otlp

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/forebay/forebay"
)

// ErrRequest is what every error of [Check] and [Decode] is: the request can never be taken as it is.
var ErrRequest = errors.New("the request is not a valid export")

// MaxNesting is how deep lists and maps may stand in each other in the value of an attribute or a body.
const MaxNesting = 64

// TooExpensiveError refuses a request that would take more memory than is allowed once it is decoded.
type TooExpensiveError struct {
	// Limit is in bytes.
	Limit int
	// Copies tells that it is not the memory of the request, but what its records have in common, once a record.
	Copies bool
}

func (e *TooExpensiveError) Error() string {
	if e.Copies {
		return fmt.Sprintf("the records would have more than %d bytes of copies of their resources, scopes, metrics and headers; "+
			"send smaller batches", e.Limit)
	}
	return fmt.Sprintf("the request would take more than %d bytes of memory when it is decoded; send smaller batches", e.Limit)
}

// Is reports that target is [ErrRequest].
func (e *TooExpensiveError) Is(target error) bool { return target == ErrRequest }

var (
	errNesting   = fmt.Errorf("%w: a value is nested more than %d levels deep", ErrRequest, MaxNesting)
	errTruncated = fmt.Errorf("%w: it ends within a field", ErrRequest)
	errTrailing  = fmt.Errorf("%w: more follows its end, of which nothing would be stored", ErrRequest)
	errNoName    = fmt.Errorf("%w: a member of an object has no name", ErrRequest)
	errWireType  = fmt.Errorf("%w: a field has an unknown wire type", ErrRequest)
)

// Check bounds an export request before it is decoded: two bytes can become a record of 300, and the decoder follows any
// nesting on the stack, and each record has a copy of its resource. headers is the size of those of the request, of which
// each record can have a copy, too. It returns about how many bytes of memory the decoded request takes. An error is
// [ErrRequest]: a [*TooExpensiveError] above limit, or one that says what is malformed.
func Check(signal forebay.Signal, enc Encoding, data []byte, headers, limit int) (cost int, err error) {
	if enc == JSON {
		cost, err = checkJSON(data, limit)
		cost += len(data) // see plain
	} else {
		c := checker{limit: limit}
		err = c.message(data, roots[signal], 0)
		cost = c.cost
		if err == nil {
			err = c.checkCopies(len(data), headers)
		}
	}
	return cost + len(data), err
}

// The messages of the protocol, as far as they have messages in them.
const (
	leaf uint8 = iota
	logsRequest
	tracesRequest
	metricsRequest
	resourceLogs
	resourceSpans
	resourceMetrics
	resource
	entityRef
	scopeLogs
	scopeSpans
	scopeMetrics
	scope
	logRecord
	span
	spanEvent
	spanLink
	status
	metric
	numbers
	histograms
	exponentials
	summaries
	numberPoint
	histogramPoint
	exponentialPoint
	summaryPoint
	exemplar
	buckets
	quantile
	keyValue
	anyValue
	arrayValue
	mapValue
	messages
)

var roots = map[forebay.Signal]uint8{
	forebay.SignalLogs: logsRequest, forebay.SignalTraces: tracesRequest, forebay.SignalMetrics: metricsRequest,
}

// fields says which fields of a message are messages.
var fields = [messages][16]uint8{
	logsRequest:      {1: resourceLogs},
	tracesRequest:    {1: resourceSpans},
	metricsRequest:   {1: resourceMetrics},
	resourceLogs:     {1: resource, 2: scopeLogs},
	resourceSpans:    {1: resource, 2: scopeSpans},
	resourceMetrics:  {1: resource, 2: scopeMetrics},
	resource:         {1: keyValue, 3: entityRef},
	scopeLogs:        {1: scope, 2: logRecord},
	scopeSpans:       {1: scope, 2: span},
	scopeMetrics:     {1: scope, 2: metric},
	scope:            {3: keyValue},
	logRecord:        {5: anyValue, 6: keyValue},
	span:             {9: keyValue, 11: spanEvent, 13: spanLink, 15: status},
	spanEvent:        {3: keyValue},
	spanLink:         {4: keyValue},
	metric:           {5: numbers, 7: numbers, 9: histograms, 10: exponentials, 11: summaries, 12: keyValue},
	numbers:          {1: numberPoint},
	histograms:       {1: histogramPoint},
	exponentials:     {1: exponentialPoint},
	summaries:        {1: summaryPoint},
	numberPoint:      {5: exemplar, 7: keyValue},
	histogramPoint:   {8: exemplar, 9: keyValue},
	exponentialPoint: {1: keyValue, 8: buckets, 9: buckets, 11: exemplar},
	summaryPoint:     {6: quantile, 7: keyValue},
	exemplar:         {7: keyValue},
	keyValue:         {2: anyValue},
	anyValue:         {5: arrayValue, 6: mapValue},
	arrayValue:       {1: anyValue},
	mapValue:         {1: keyValue},
}

// oldScopes is the number that the scopes of a resource had in an early version of the protocol. The decoder still takes it.
const oldScopes = 1000

const (
	// messageCost is what a decoded message takes at most, with its place in the slice of its parent; keyValue and
	// anyValue are smaller, and much more frequent.
	messageCost = 384
	valueCost   = 96
	// fieldCost is for a field that is not a message; packedCost for a byte of a packed field, of which each can be a number.
	fieldCost  = 24
	packedCost = 16
)

type checker struct {
	cost, limit int
	// records counts records; copies is the bytes that they have in common with others, once a record.
	records, copies int
}

// A request may have freeCopies bytes of copies, and copiesPerByte for each of its bytes. Telemetry of many small records
// with a large resource stays well below; what is above are bombs, of which a kilobyte becomes gigabytes of rows.
const (
	freeCopies    = 128 << 20
	copiesPerByte = 16
)

func (c *checker) checkCopies(size, headers int) error {
	if limit := freeCopies + copiesPerByte*size; c.copies+c.records*headers > limit {
		return &TooExpensiveError{Limit: limit, Copies: true}
	}
	return nil
}

// isRecord and isShared tell the messages that become records, and those that each record has a copy of.
var (
	isRecord = [messages]bool{
		logRecord: true, span: true, numberPoint: true, histogramPoint: true, exponentialPoint: true, summaryPoint: true,
	}
	isShared = [messages]bool{resource: true, scope: true}
)

// message goes through the fields of one message. Its recursion is bounded by the nesting of values.
func (c *checker) message(b []byte, kind uint8, nesting int) error {
	children := fields[kind]
	before, shared := c.records, 0
	if isRecord[kind] {
		c.records++
	}
	if kind == anyValue {
		if nesting++; nesting > MaxNesting {
			return errNesting
		}
	}
	for i := 0; i < len(b); {
		tag := uint64(b[i])
		i++
		if tag >= 0x80 {
			v, n := binary.Uvarint(b[i-1:])
			if n <= 0 {
				return errTruncated
			}
			tag = v
			i += n - 1
		}
		c.cost += fieldCost
		switch tag & 7 {
		case 0:
			for i < len(b) && b[i] >= 0x80 {
				i++
			}
			i++
		case 1:
			i += 8
		case 5:
			i += 4
		case 2:
			if i >= len(b) {
				return errTruncated
			}
			size := uint64(b[i])
			i++
			if size >= 0x80 {
				v, n := binary.Uvarint(b[i-1:])
				if n <= 0 {
					return errTruncated
				}
				size = v
				i += n - 1
			}
			if size > uint64(len(b)-i) {
				return errTruncated
			}
			end := i + int(size)
			child := leaf
			// The decoder takes the lower 32 bits for the number, so that there are other tags for the same field.
			switch field := uint32(tag >> 3); {
			case field < uint32(len(children)):
				child = children[field]
			case field == oldScopes && kind >= resourceLogs && kind <= resourceMetrics:
				child = children[2]
			}
			if isShared[child] || kind == metric && (child == leaf || child == keyValue) {
				shared += int(size)
			}
			switch child {
			case leaf:
				if kind == buckets || kind == histogramPoint {
					c.cost += packedCost * int(size)
				}
			case keyValue, anyValue:
				c.cost += valueCost
			default:
				c.cost += messageCost
			}
			if c.cost > c.limit {
				return &TooExpensiveError{Limit: c.limit}
			}
			if child != leaf {
				if err := c.message(b[i:end], child, nesting); err != nil {
					return err
				}
			}
			i = end
		default:
			return errWireType
		}
		if i > len(b) {
			return errTruncated
		}
	}
	if c.cost > c.limit {
		return &TooExpensiveError{Limit: c.limit}
	}
	c.copies += shared * (c.records - before)
	return nil
}

// maxBrackets is how many brackets of JSON may be open: four for each level of a value, and those of the messages around.
const maxBrackets = 4*MaxNesting + 24

// checkJSON counts brackets and commas, and refuses what the decoder takes for something else: it stops at the end of the
// first value, it takes a member without a name for the end of an object, and it is lenient about what stands between
// members. So what follows would be lost, or read as if it stood elsewhere.
func checkJSON(b []byte, limit int) (cost int, err error) {
	depth := 0
	ended := false
	for i := 0; i < len(b); i++ {
		if ended {
			switch b[i] {
			case ' ', '\t', '\r', '\n':
				continue
			}
			return cost, errTrailing
		}
		switch b[i] {
		case '"':
			begin := i + 1
			for i++; i < len(b) && b[i] != '"'; i++ {
				switch b[i] {
				case '\\':
					i++
				case 'e', 'E':
					cost += exponent(b, i)
				}
			}
			if i == begin && isName(b[i:]) {
				return cost, errNoName
			}
		case '{', '[':
			cost += messageCost
			if depth++; depth > maxBrackets {
				return cost, errNesting
			}
		case '}', ']':
			depth--
			ended = depth == 0
		case ',':
			cost += fieldCost
		case 'e', 'E':
			cost += exponent(b, i)
		}
		if cost > limit {
			return cost, &TooExpensiveError{Limit: limit}
		}
	}
	if !json.Valid(b) {
		var v any
		var syntax *json.SyntaxError
		if errors.As(json.Unmarshal(b, &v), &syntax) { // which does not get as far as v
			what := "invalid character"
			if syntax.Offset >= int64(len(b)) {
				what = "unexpected end"
			}
			return cost, fmt.Errorf("%w: it is not JSON, %s at byte %d", ErrRequest, what, syntax.Offset)
		}
		return cost, fmt.Errorf("%w: it is not JSON", ErrRequest)
	}
	return cost, nil
}

// exponent is what the e at a place costs beyond its byte: behind a digit it may be that of a number, which plain writes with
// as many digits as an integer can have.
func exponent(b []byte, at int) int {
	if at > 0 && b[at-1] >= '0' && b[at-1] <= '9' {
		return 2 * len("18446744073709551615")
	}
	return 0
}

// bracketsAbove reports whether more than depth brackets of valid JSON are open somewhere. A level of a value has three at
// least, so that what is not above three times MaxNesting is not nested too deep.
func bracketsAbove(b []byte, depth int) bool {
	open := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			if open++; open > depth {
				return true
			}
		case '}', ']':
			open--
		}
	}
	return false
}

// isName reports whether the string that ends at the first byte of b is the name of a member.
func isName(b []byte) bool {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case ' ', '\t', '\r', '\n':
			continue
		}
		return b[i] == ':'
	}
	return false
}
