package main

import (
	"context"
	"errors"

	"github.com/forebay/forebay/internal/program/api"
	"github.com/forebay/forebay/internal/program/salvage"
)

func (p process) salvage(ctx context.Context, args []string) int {
	err := salvage.Run(ctx, args, p.environment())
	status := failed
	if _, ok := errors.AsType[*api.UsageError](err); ok {
		status = wrongUsage
	}
	return p.end("salvage", err, status)
}
