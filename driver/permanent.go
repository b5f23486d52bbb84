package driver

import "errors"

// ErrVoid is matched by the error of Target.Import for a file that [Voider.Void] has ruled out because other files have its rows.
var ErrVoid = errors.New("driver: the file is ruled out, others have its rows")

// Permanent marks err as non-retryable until someone fixes the cause. A nil err gives nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// IsPermanent reports whether err is non-retryable until someone fixes the cause, that is, err is marked by [Permanent] or is a
// [*SchemaError] or [*RowsError].
func IsPermanent(err error) bool {
	var p *permanentError
	var s *SchemaError
	var r *RowsError
	return errors.As(err, &p) || errors.As(err, &s) || errors.As(err, &r)
}
