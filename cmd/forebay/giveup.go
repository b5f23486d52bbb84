package main

import (
	"context"
	"errors"

	"github.com/forebay/forebay/internal/program/api"
	"github.com/forebay/forebay/internal/program/giveup"
)

func (p process) giveUp(ctx context.Context, args []string) int {
	err := giveup.Run(ctx, args, p.environment())
	status := failed
	if _, ok := errors.AsType[*api.UsageError](err); ok {
		status = wrongUsage
	}
	return p.end("giveup", err, status)
}
