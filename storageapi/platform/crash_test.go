package platform_test

import (
	"errors"

	"github.com/forebay/forebay/storageapi"
)

func isChild() bool { return false }
func runChild()     {}

func asError(err error, e **storageapi.Error) bool { return errors.As(err, e) }

func asJobError(err error, e **storageapi.JobError) bool { return errors.As(err, e) }
