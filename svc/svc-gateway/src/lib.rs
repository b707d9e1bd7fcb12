//! svc-gateway
