# The operator's image:  docker build --tag REGISTRY/tgp-operator:0.1.0 .     for arm64: --platform linux/arm64
# Packages are recognised by the hashes in requirements/. BASE may be any image with Python 3.11 or newer and its venv.
ARG BASE=python:3.13-slim-bookworm

FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
COPY requirements/build.txt requirements/runtime.txt requirements/
RUN python3 -m venv /build && python3 -m venv --without-pip /opt/tgp \
    && /build/bin/pip install --require-hashes --only-binary=:all: --requirement requirements/build.txt \
    && /build/bin/pip --python /opt/tgp/bin/python3 install --require-hashes --only-binary=:all: \
        --requirement requirements/runtime.txt
COPY pyproject.toml README.md LICENSE ./
COPY deploy/rbac deploy/rbac
COPY src src
RUN /build/bin/python -m hatchling build --target wheel \
    && /build/bin/pip --python /opt/tgp/bin/python3 install --no-index --no-deps dist/*.whl

FROM ${BASE}
LABEL org.opencontainers.image.title="tgp-operator" org.opencontainers.image.licenses="MIT"
COPY --from=build /opt/tgp /opt/tgp
ENV PATH="/opt/tgp/bin:${PATH}" PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
ENTRYPOINT ["tgp"]
CMD ["operator"]
