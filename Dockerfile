# An image of the program forebay, with nothing else in it: docker build -t forebay .
#
# docs/deploy.md shows how to run it. cmd/forebay/image_test.go plays the file without a builder of images.
ARG GO_IMAGE=docker.io/library/golang:1.26
FROM --platform=$BUILDPLATFORM ${GO_IMAGE} AS build
ARG TARGETOS
ARG TARGETARCH
# Build tags, such as forebay_iceberg. Two more, below, leave out the gRPC client of Google Cloud Storage, an eighth of the program.
ARG TAGS
COPY . /src
WORKDIR /src/cmd/forebay
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -ldflags="-s -w" -tags="disable_grpc_modules,grpcnotrace,$TAGS" -o /image/forebay .
# Folders of the user: /data for rows, /tmp for the files that a target in a bucket imports.
RUN mkdir -m 0700 -p /image/home/data && mkdir -m 0700 -p /image/home/tmp

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build --chown=65532:65532 /image/home/ /
COPY --from=build /image/forebay /forebay
ENV FOREBAY_DIR=/data
ENV FOREBAY_ADDR=:8080
ENV FOREBAY_API_ADDR=:8081
ENV FOREBAY_OTLP_GRPC=:4317
ENV FOREBAY_OTLP_HTTP=:4318
EXPOSE 8080 8081 4317 4318
USER 65532:65532
WORKDIR /data
VOLUME /data
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["/forebay", "health"]
ENTRYPOINT ["/forebay"]
CMD ["serve"]
