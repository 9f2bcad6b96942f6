# The service on a CPU:
#   docker build -t densirank .
#   docker run --rm -p 127.0.0.1:8000:8000 -v ./model:/model:ro -v ./keys.txt:/run/keys:ro densirank
FROM python:3.11-slim AS build
WORKDIR /build
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
# PIP_OPTIONS may name an index with CPU-only wheels of torch, which are a tenth of the size.
ARG PIP_OPTIONS=""
RUN python -m venv /opt/densirank \
 && /opt/densirank/bin/pip install --no-cache-dir --disable-pip-version-check ${PIP_OPTIONS} \
    --constraint constraints.txt '.[serve]'

FROM python:3.11-slim
COPY --from=build /opt/densirank /opt/densirank
RUN useradd --system --no-create-home --shell /usr/sbin/nologin densirank
USER densirank
ENV PATH=/opt/densirank/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/readyz', timeout=2)"]
ENTRYPOINT ["densirank", "serve"]
CMD ["/model", "--host", "0.0.0.0", "--port", "8000", "--api-key-file", "/run/keys"]
