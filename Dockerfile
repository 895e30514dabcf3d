# The operator's image, built without a network:
#   make wheelhouse                # the packages of requirements/, by their hashes, into build/wheelhouse
#   docker build --network none --tag REGISTRY/tgp-operator:0.1.0 .           for arm64: --platform linux/arm64
# BASE may be any image with that Python, or another one for which build/wheelhouse was filled.
ARG BASE=python:3.13-slim-bookworm

FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheelhouse PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY build/wheelhouse /wheelhouse
COPY requirements/build.txt requirements/runtime.txt requirements/
RUN cp /wheelhouse/pip-*.whl /pip.whl \
    && python3 -m venv --without-pip /build && python3 -m venv --without-pip /opt/tgp \
    && /build/bin/python3 /pip.whl/pip install --require-hashes --requirement requirements/build.txt \
    && /opt/tgp/bin/python3 /pip.whl/pip install --require-hashes --requirement requirements/runtime.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN /build/bin/python3 -m hatchling build --target wheel \
    && /opt/tgp/bin/python3 /pip.whl/pip install --no-deps dist/*.whl \
    && find /opt/tgp -type d -name tests -prune -exec rm -r {} +

FROM ${BASE}
LABEL org.opencontainers.image.title="tgp-operator" org.opencontainers.image.licenses="MIT"
COPY --from=build /opt/tgp /opt/tgp
ENV PATH="/opt/tgp/bin:${PATH}" PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
ENTRYPOINT ["tgp"]
CMD ["operator"]
