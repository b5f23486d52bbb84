package stream

import (
	"net/http"

	"github.com/forebay/forebay"
)

// replayedField marks an answer to a request of which an earlier one with the same key had stored everything.
const replayedField = "Idempotent-Replayed"

var (
	badKey = &apiError{
		status: http.StatusBadRequest, name: "stream.in.badRequest", message: "The Idempotency-Key must have 1 to 255 characters.",
	}
	otherBody = &apiError{
		status: http.StatusUnprocessableEntity, name: "stream.in.unprocessableContent",
		message: "The Idempotency-Key was used for another body. Nothing was stored.",
	}
)

// replayed reports whether an earlier request has stored all rows of a request.
func replayed(results ...forebay.Result) bool {
	rows := 0
	for _, res := range results {
		for _, s := range res.Sinks {
			if !s.Replayed {
				return false
			}
			rows++
		}
	}
	return rows > 0
}

var replayedValue = []string{"true"}
