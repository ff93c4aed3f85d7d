# Two ways to an image. `docker build --target prebuilt` copies a ready bin/cordwood and needs no other image;
# the default target compiles it, for people without Go.

FROM scratch AS prebuilt
COPY bin/cordwood /cordwood
COPY --chown=65532:65532 configs/docker/empty /var/lib/cordwood
USER 65532:65532
VOLUME ["/var/lib/cordwood"]
EXPOSE 9092 9093 7946 8080 19092
HEALTHCHECK --interval=2s --timeout=3s --start-period=20s CMD ["/cordwood", "health", "--local"]
ENTRYPOINT ["/cordwood"]
CMD ["serve"]

FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN make build

FROM scratch
COPY --from=build /src/bin/cordwood /cordwood
COPY --chown=65532:65532 configs/docker/empty /var/lib/cordwood
USER 65532:65532
VOLUME ["/var/lib/cordwood"]
EXPOSE 9092 9093 7946 8080 19092
HEALTHCHECK --interval=2s --timeout=3s --start-period=20s CMD ["/cordwood", "health", "--local"]
ENTRYPOINT ["/cordwood"]
CMD ["serve"]
