package bucket

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"

	"cloud.google.com/go/storage"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	"gocloud.dev/gcerrors"
	"google.golang.org/api/googleapi"

	"github.com/forebay/forebay/driver"
)

// code is the code that the store gave with an error, "" if it gave none. Google gives statuses alone.
func code(err error) string {
	if e, ok := errors.AsType[smithy.APIError](err); ok {
		return e.ErrorCode()
	}
	if e, ok := errors.AsType[*azcore.ResponseError](err); ok {
		return e.ErrorCode
	}
	return ""
}

// status is the HTTP status of the response that an error is about, 0 if there was none.
func status(err error) int {
	if e, ok := errors.AsType[*awshttp.ResponseError](err); ok {
		return e.HTTPStatusCode()
	}
	if e, ok := errors.AsType[*azcore.ResponseError](err); ok {
		return e.StatusCode
	}
	if e, ok := errors.AsType[*googleapi.Error](err); ok {
		return e.Code
	}
	return 0
}

// isTaken reports whether a put was refused because its key is taken.
func isTaken(err error) bool {
	return status(err) == http.StatusPreconditionFailed || gcerrors.Code(err) == gcerrors.FailedPrecondition
}

// isRace reports whether a put was refused because of another put of its key that was not complete.
func isRace(err error) bool { return status(err) == http.StatusConflict }

// isAbsent reports whether an error says that the object is absent, and nothing but that.
func isAbsent(err error) bool {
	c := code(err)
	return c == "NoSuchKey" || c == string(bloberror.BlobNotFound)
}

// isRefused reports whether the store refuses the caller.
func isRefused(err error) bool {
	s := status(err)
	return s == http.StatusUnauthorized || s == http.StatusForbidden || gcerrors.Code(err) == gcerrors.PermissionDenied
}

// isPermanent reports whether the same call fails until an operator changes a right or the bucket.
func isPermanent(err error) bool {
	switch code(err) {
	case "ExpiredToken", "ExpiredTokenException", "RequestExpired", "RequestTimeTooSkewed": // new ones come by themselves
		return false
	case "NoSuchBucket", string(bloberror.ContainerNotFound), "InvalidBucketName", "NotImplemented":
		return true
	}
	return isRefused(err) || errors.Is(err, storage.ErrBucketNotExist)
}

// explain wraps an error with what failed, without credentials, and marks a permanent one.
func (s *store) explain(what, id string, err error) error {
	if err == nil {
		return nil
	}
	wrapped := fmt.Errorf("bucket: %s %s in %s: %w", what, id, s.where, redact(err))
	if isPermanent(err) {
		return driver.Permanent(wrapped)
	}
	return wrapped
}

// parameters finds the parameters of URLs in a text: Azure has signatures there.
var parameters = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://[^\s"?]*)\?[^\s"]*`)

// redacted is an error whose text has no parameters of URLs.
type redacted struct {
	text string
	err  error
}

func redact(err error) error {
	text := err.Error()
	if clean := parameters.ReplaceAllString(text, "$1"); clean != text {
		return &redacted{clean, err}
	}
	return err
}

func (r *redacted) Error() string { return r.text }

func (r *redacted) Unwrap() error { return r.err }
