# The collector's image: `pm` in a virtual environment on a slim Python, as a user without rights.
# Two targets: `api` (pm serve) and `worker` (pm admin worker, with git and the docker client that reaches an engine's socket).
ARG PYTHON_IMAGE=docker.io/library/python:3.11-slim
ARG CLIENT_IMAGE=docker.io/library/docker:28-cli

FROM ${CLIENT_IMAGE} AS client

FROM ${PYTHON_IMAGE} AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
RUN python -m venv /opt/pm && python -m venv /opt/build
# The dependencies stand in a layer of their own: a change of ours does not fetch them again.
COPY requirements/runtime.txt requirements/build.txt requirements/
RUN /opt/build/bin/pip install --no-deps --require-hashes --only-binary :all: -r requirements/build.txt \
 && /opt/build/bin/pip --python /opt/pm/bin/python install --no-compile --no-deps --require-hashes --only-binary :all: -r requirements/runtime.txt
COPY . .
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /dist . \
 && /opt/build/bin/pip --python /opt/pm/bin/python install --no-compile --no-deps /dist/*.whl \
 && rm -rf /opt/pm/lib/python*/site-packages/pip /opt/pm/lib/python*/site-packages/pip-*.dist-info /opt/pm/lib/python*/site-packages/setuptools* /opt/pm/bin/pip* \
 && { /opt/pm/bin/python -m compileall -q -j 0 /opt/pm/lib || true; }

FROM ${PYTHON_IMAGE} AS api
COPY --from=build /opt/pm /opt/pm
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /var/lib/pm pm \
 && install -d -o pm -g pm -m 0750 /var/lib/pm
ENV PATH=/opt/pm/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/var/lib/pm
USER pm
WORKDIR /var/lib/pm
VOLUME /var/lib/pm
EXPOSE 8765
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
  CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8765/readyz', timeout=4)"]
ENTRYPOINT ["pm"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8765"]

FROM api AS worker
USER root
RUN command -v git >/dev/null || { apt-get update && apt-get install -y --no-install-recommends git && rm -rf /var/lib/apt/lists/*; }
COPY --from=client /usr/local/bin/docker /usr/local/bin/docker
USER pm
HEALTHCHECK NONE
CMD ["admin", "worker"]
